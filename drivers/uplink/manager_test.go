package uplink_test

import (
	"os"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// NetworkManager has the kernel make no route for an address, and makes that itself, in the name of the kernel.
func TestAHostOfNetworkManagerKeepsTheRouteToItsNetwork(t *testing.T) {
	n := aHost(t)
	n.Exec("ip", "address", "flush", "dev", "up0", "scope", "global")
	n.Exec("sh", "-ec", `
ip address add 198.51.100.7/24 dev up0 noprefixroute label up0:host
ip route add 198.51.100.0/24 dev up0 proto kernel scope link src 198.51.100.7 metric 100
ip route add default via 198.51.100.1 dev up0 proto dhcp src 198.51.100.7 metric 100
ip address add 2001:db8:7::7/64 dev up0 nodad noprefixroute
ip -6 route add 2001:db8:7::/64 dev up0 proto kernel metric 100
ip -6 route add default via 2001:db8:7::1 dev up0 metric 100`)
	before := n.picture()
	if !strings.Contains(before, "198.51.100.0/24 dev up0 proto kernel scope link src 198.51.100.7 metric 100") {
		t.Fatal(before)
	}
	b, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	n.says(b, "")
	stop()
	if err := uplink.Undo(t.Context(), n.config("")); err != nil {
		t.Fatal(err)
	}
	n.eventually("the host has its link again", func() bool { return n.picture() == before })
}

// What cannot be written down is not moved, or it would be lost with the process that has moved it.
func TestALinkWithARouteThatCannotBeWrittenDownStaysAsItIs(t *testing.T) {
	n := aHost(t)
	n.Exec("ip", "route", "add", "203.0.113.128/25", "via", "inet6", "fe80::1", "dev", "up0")
	before := n.picture()
	b, stop := n.keep("", "up0")
	defer stop()
	n.says(b, "cannot be written down")
	if got := n.picture(); got != before {
		t.Errorf("have\n%s\nhad\n%s", got, before)
	}
	n.Exec("ip", "route", "del", "203.0.113.128/25")
	n.isOnBridge("without that route", strings.ReplaceAll(before, "203.0.113.128/25 via inet6 fe80::1 dev up0 \n", ""))
}

// One that is a port already, as after a boot, is moved all the same: the host is not reached otherwise.
func TestAPortWithARouteThatCannotBeWrittenDownIsMoved(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	b, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	n.Exec("ip", "route", "add", "203.0.113.128/25", "via", "inet6", "fe80::1", "dev", uplink.DefaultBridge)
	n.Exec("ip", "address", "add", "198.51.100.9/24", "dev", uplink.DefaultBridge)
	n.eventually("what came later is written down", func() bool {
		data, err := os.ReadFile(n.record())
		return err == nil && strings.Contains(string(data), "198.51.100.9")
	})
	n.says(b, "")
	stop()
	if _, err := uplink.Moved(n.config("")); err != nil {
		t.Errorf("the record: %v", err)
	}
	b, stop = n.keep("", "up0")
	defer stop()
	n.says(b, "")
}
