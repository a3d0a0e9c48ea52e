package ovsd

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/test/ovstest"
)

// The address may be on a port of ovs-vswitchd, which is gone while that restarts.
func TestTheMTUOfTunnelsStaysWhileTheirAddressIsAway(t *testing.T) {
	s := ovstest.Start(t)
	ns, err := netns.GetFromName(s.Netns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	l, err := newLinks(&ns, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.handle.Close()
	vtep := netip.MustParseAddr("192.0.2.77")
	expect := func(what string, want int) {
		t.Helper()
		if got, err := l.tunnelMTU(vtep); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", what, got, err, want)
		}
	}
	expect("never there", 1450)
	s.Exec("ip", "link", "add", "jumbo", "mtu", "9000", "type", "veth", "peer", "name", "jumbo2")
	s.Exec("ip", "address", "add", "192.0.2.77/24", "dev", "jumbo")
	expect("there", 8950)
	s.Exec("ip", "address", "del", "192.0.2.77/24", "dev", "jumbo")
	expect("away", 8950)
	s.Exec("ip", "link", "set", "jumbo", "mtu", "1400")
	s.Exec("ip", "address", "add", "192.0.2.77/24", "dev", "jumbo")
	expect("back, with another", 1350)
}
