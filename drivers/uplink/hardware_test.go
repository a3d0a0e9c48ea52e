package uplink_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// mac returns the MAC of a link.
func (n *node) mac(link string) string {
	n.t.Helper()
	return regexp.MustCompile(`link/ether ([0-9a-f:]+)`).FindStringSubmatch(n.Exec("ip", "link", "show", link))[1]
}

// A link that has its address back needs another MAC on the network than the bridge.
func TestTheLocalPortGivesTheMACBackWithTheLink(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep(uplink.ActiveBackup, "up1", "up0")
	n.isOnBridge("by a bond", before)
	if have, want := n.mac(uplink.DefaultBridge), n.mac("up0"); have != want {
		t.Errorf("the local port has %s, the link %s", have, want)
	}
	stop()
	b, _ := n.keep("", "up1")
	n.hasBack(before)
	n.eventually("the local port has another MAC", func() bool { return n.mac(uplink.DefaultBridge) != n.mac("up0") })
	n.hostReaches("198.51.100.1")
	n.reaches("by the other link")
	n.says(b, "")
}

// With another MAC the local port loses routes: ovs-vswitchd sets it down for that.
func TestWhatTheHostHasAtTheOtherLinkOutlivesTheMAC(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("ip", "link", "set", "up1", "up")
	n.Exec("ip", "address", "add", "192.0.2.7/24", "dev", "up1")
	n.Exec("ip", "address", "add", "2001:db8:8::7/64", "dev", "up1", "nodad")
	n.Exec("ip", "route", "add", "203.0.115.0/24", "via", "192.0.2.1", "dev", "up1")
	moved := func() bool {
		all := n.picture()
		for _, part := range []string{"contivUplink    inet 192.0.2.7/24", "contivUplink    inet6 2001:db8:8::7/64", "203.0.115.0/24 via 192.0.2.1 dev contivUplink"} {
			if !strings.Contains(all, part) {
				return false
			}
		}
		return true
	}
	b, stop := n.keep(uplink.ActiveBackup, "up0", "up1", "up2")
	n.eventually("all is on the bridge", moved)
	n.says(b, "uplink up2: there is no such link")
	stop()
	b, _ = n.keep(uplink.ActiveBackup, "up1", "up2") // the bond is not made anew
	n.eventually("the local port has the MAC of the link that stays", func() bool {
		return n.mac(uplink.DefaultBridge) == n.mac("up1")
	})
	n.says(b, "uplink up2: there is no such link")
	n.eventually("what is of the link that stays is on the bridge", moved)
	n.hostReaches("198.51.100.1")
}
