package uplink_test

import (
	"os"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// reboot has the effects of a boot: the kernel's state is lost, while the database and the record, which is
// changed, stay.
func (n *node) reboot(change func(r map[string]any)) {
	n.t.Helper()
	n.KillVswitchd()
	n.Exec("ip", "link", "delete", uplink.DefaultBridge)
	n.Exec("sysctl", "-qw", "net.ipv4.conf.up0.rp_filter=0", "net.ipv6.conf.up0.disable_ipv6=0")
	n.spoilRecord(func(r map[string]any) {
		r["boot"] = "another one"
		change(r)
	})
	n.StartVswitchd()
	n.configureHost()
}

// After a boot the switch's database is unchanged, and the host has its own configuration. The local port does not
// keep the MAC of a link that is no longer an uplink: the host would have it twice in one network.
func TestTheLocalPortGivesTheMACBackOverABoot(t *testing.T) {
	for name, change := range map[string]func(r map[string]any, mac string){
		"of a link that was not given back": func(map[string]any, string) {},
		"of one that was given back last":   func(r map[string]any, mac string) { r["links"], r["former"] = map[string]any{}, mac },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			n := aHost(t)
			before := n.picture()
			_, stop := n.keep("", "up0")
			n.isOnBridge("at first", before)
			stop()
			mac := n.mac("up0")
			n.reboot(func(r map[string]any) { change(r, mac) })

			b, _ := n.keep("", "up1")
			n.eventually("the local port has another MAC", func() bool { return n.mac(uplink.DefaultBridge) != mac })
			n.hostReaches("198.51.100.1")
			n.reaches("by the other link")
			n.says(b, "")
		})
	}
}

// A restarted switch has another local port, in the same boot.
func TestALinkGetsItsAddressesBackFromAnotherLocalPort(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep(uplink.ActiveBackup, "up1", "up0")
	n.isOnBridge("by a bond", before)
	stop()
	n.KillVswitchd()
	n.Exec("ip", "link", "delete", uplink.DefaultBridge)
	n.StartVswitchd()
	b, _ := n.keep("", "up1")
	n.hasBack(before)
	n.eventually("the local port has another MAC", func() bool { return n.mac(uplink.DefaultBridge) != n.mac("up0") })
	n.hostReaches("198.51.100.1")
	n.says(b, "")
}

// A node without uplinks after a boot has the link for itself.
func TestTheLastUplinkIsGivenBackOverABoot(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	stop()
	n.reboot(func(map[string]any) {})
	former := n.former()
	n.eventually("nothing is left", func() bool {
		_, err := os.Stat(n.record())
		return former.Problem() == "" && os.IsNotExist(err)
	})
	n.hasBack(before)
	n.hostReaches("198.51.100.1")
	if left := n.Vsctl("list-br"); strings.Contains(left, uplink.DefaultBridge) {
		t.Errorf("bridges %q", left)
	}
}
