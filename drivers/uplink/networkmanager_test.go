package uplink_test

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// NetworkManager keeps the kernel from making a route for an address, and makes it itself, with the kernel's
// protocol.
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
