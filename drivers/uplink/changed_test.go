package uplink_test

import (
	"regexp"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// Changes at the local port are restored in their last state, not in the state of the move.
func TestWhatIsChangedAtTheLocalPortIsNotedAsItIs(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.outside.Exec("ip", "address", "add", "198.51.100.2/24", "dev", "router")
	n.Exec("ip", "address", "add", "198.51.100.8/24", "dev", "up0", "valid_lft", "1000", "preferred_lft", "900")
	_, stop := n.keep("", "up0")
	n.has("the host is on the bridge", "contivUplink    inet 198.51.100.8/24", "default via 198.51.100.1 dev contivUplink")

	n.Exec("ip", "route", "replace", "default", "via", "198.51.100.2", "dev", uplink.DefaultBridge)
	n.Exec("ip", "address", "change", "198.51.100.8/24", "dev", uplink.DefaultBridge, "valid_lft", "5000", "preferred_lft", "4000")
	n.Exec("ip", "address", "add", "198.51.100.9/24", "dev", uplink.DefaultBridge)
	n.recorded("198.51.100.9", true)
	index := n.Exec("cat", "/sys/class/net/"+uplink.DefaultBridge+"/ifindex")
	n.Vsctl("del-br", uplink.DefaultBridge)
	n.eventually("there is another local port", func() bool {
		now, err := n.Try("cat", "/sys/class/net/"+uplink.DefaultBridge+"/ifindex")
		return err == nil && now != index
	})
	lease := regexp.MustCompile(`198.51.100.8/24 .* valid_lft [45]...sec preferred_lft [34]...sec`)
	n.has("another local port", "contivUplink    inet 198.51.100.9/24", "default via 198.51.100.2 dev contivUplink")
	if have := n.picture(); !lease.MatchString(have) {
		t.Errorf("the lease is that of before:\n%s", have)
	}
	stop()
	n.undo()
	n.has("the link", "up0    inet 198.51.100.9/24", "default via 198.51.100.2 dev up0", "scope global secondary up0\\")
	have := n.picture()
	if !lease.MatchString(have) {
		t.Errorf("the lease is that of before:\n%s", have)
	}
	if regexp.MustCompile(`up0 .*` + uplink.DefaultBridge).MatchString(have) {
		t.Errorf("an address of the link is labelled as one of the bridge:\n%s", have)
	}
}

// A client adds its route after its address, and a route may change alone.
func TestARouteThatIsChangedAtTheLocalPortIsNoted(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	b, _ := n.keep("", "up0")
	n.isOnBridge("at first", before)
	n.says(b, "")
	n.Exec("ip", "route", "replace", "default", "via", "198.51.100.2", "dev", uplink.DefaultBridge)
	n.recorded(`"198.51.100.2"`, true)
	n.Exec("ip", "-6", "route", "add", "2001:db8:99::/64", "via", "2001:db8:7::1", "dev", uplink.DefaultBridge)
	n.recorded(`"2001:db8:99::"`, true)
	n.Exec("ip", "-6", "route", "del", "2001:db8:99::/64", "dev", uplink.DefaultBridge)
	n.recorded(`"2001:db8:99::"`, false)
}
