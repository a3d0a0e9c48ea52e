package uplink_test

import (
	"strings"
	"testing"
)

// rename renames a link, as udev does with rules that were changed.
func (n *node) rename(old, name string) {
	n.t.Helper()
	n.Exec("ip", "link", "set", old, "down")
	n.Exec("ip", "link", "set", old, "name", name)
	n.Exec("ip", "link", "set", name, "up")
}

// The host may be reached by these addresses only.
func TestTheHostKeepsItsAddressesWhenItsUplinkIsRenamed(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	b, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	n.rename("up0", "up9")
	n.says(b, "uplink up0: there is no such link")
	stop()
	b, stop = n.keep("", "up9")
	n.isOnBridge("by the new name", before)
	n.says(b, "")
	stop()

	n.rename("up9", "up8") // and the one before is no uplink any more
	b, stop = n.keep("", "up1")
	n.eventually("the link has its addresses by its last name", func() bool {
		return strings.Contains(n.Exec("ip", "-o", "address", "show", "dev", "up8"), "198.51.100.7/24")
	})
	n.says(b, "")
	stop()
	n.rename("up8", "up0")
	n.undo()
}

func TestARenamedUplinkHasBackWhatTheHostHad(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	stop()
	n.rename("up0", "up9")
	n.undo()
	if n.isPromiscuous("up9") {
		t.Error("the link is promiscuous")
	}
	addresses, _, _ := strings.Cut(strings.ReplaceAll(before, "up0", "up9"), "/proc")
	n.eventually("the host has its link back", func() bool {
		after := n.picture()
		return strings.HasPrefix(after, addresses) && strings.Contains(after, "/ipv4/conf/up9/rp_filter:0")
	})
}
