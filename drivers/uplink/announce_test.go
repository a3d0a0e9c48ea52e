package uplink_test

import (
	"regexp"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// heard returns the MAC that the router has for an address.
func (n *node) heard(address string) string {
	n.t.Helper()
	entry := n.outside.Exec("ip", "neighbour", "show", "dev", "router", "to", address)
	return regexp.MustCompile(`lladdr ([0-9a-f:]+)|$`).FindStringSubmatch(entry)[1]
}

// Neighbours that know an address of the host learn its new MAC: when it has moved to the local port, which has
// that of another link, when the local port gets another one, and when it is back on its link. They do not ask,
// and the host sends nothing on its own.
func TestNeighboursAreToldOfAnotherMAC(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.twoLegs()
	n.outside.Exec("ip", "address", "add", "192.0.2.1/24", "dev", "router")
	n.outside.Exec("ip", "address", "add", "2001:db8:8::1/64", "dev", "router", "nodad")
	hears := func(when string, link string) {
		t.Helper()
		want := n.mac(link)
		for _, address := range []string{"192.0.2.7", "2001:db8:8::7"} {
			n.eventually(when+" the router knows "+address+" by the MAC of "+link, func() bool { return n.heard(address) == want })
		}
	}
	for _, address := range []string{"192.0.2.7", "2001:db8:8::7"} {
		n.outside.Exec("ip", "neighbour", "replace", address, "lladdr", n.mac("up1"), "dev", "router", "nud", "stale")
	}

	_, stop := n.keep(uplink.ActiveBackup, "up0", "up1", "up2")
	hears("at first", "up0")
	stop()
	_, stop = n.keep(uplink.ActiveBackup, "up1", "up2") // the bond is not made anew
	hears("without the first link", "up1")
	stop()
	_, stop = n.keep(uplink.ActiveBackup, "up0", "up1", "up2")
	hears("with the first link", "up0")
	stop()
	_, stop = n.keep("", "up0")
	hears("when it is back", "up1")
	stop()
	_, stop = n.keep(uplink.ActiveBackup, "up0", "up1")
	hears("with the first link again", "up0")
	stop()
	n.undo()
	hears("when all is undone", "up1")
}

// They also learn it when other software gives the local port another MAC, where the host's own configuration has
// given it the addresses, and when the link works again.
func TestNeighboursAreToldOfTheMACThatSomebodyElseHasSet(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("sh", "-ec", "ip address flush dev up0 scope global; ip -6 route flush default")
	b, stop := n.keep("", "up0")
	n.says(b, "")
	n.reaches("at first")
	n.Exec("ip", "address", "add", "198.51.100.7/24", "dev", uplink.DefaultBridge)
	n.Exec("ip", "link", "set", uplink.DefaultBridge, "up")
	n.hostReaches("198.51.100.1")
	stop()

	forget := func() {
		n.outside.Exec("ip", "neighbour", "replace", "198.51.100.7", "lladdr", "02:00:00:00:00:99", "dev", "router", "nud", "stale")
	}
	// hears waits for three of the five rounds: fewer than that are left before the next change.
	hears := func(mac string) {
		t.Helper()
		for range 3 {
			n.eventually("the router knows "+mac, func() bool { return n.heard("198.51.100.7") == mac })
			forget()
		}
	}
	forget()
	n.keep("", "up0")
	hears(n.mac(uplink.DefaultBridge))
	n.Vsctl("set", "bridge", uplink.DefaultBridge, "other_config:hwaddr=02:00:00:00:00:77")
	hears("02:00:00:00:00:77")
	n.outside.Exec("sh", "-ec", "ip link set to-up0 down; ip link set to-up0 up") // perhaps at another port of the switch
	hears("02:00:00:00:00:77")
}
