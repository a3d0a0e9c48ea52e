package uplink_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// has waits until the picture of the host has all these parts.
func (n *node) has(what string, parts ...string) {
	n.t.Helper()
	defer func() {
		if n.t.Failed() {
			n.t.Logf("%s: the host has\n%s", what, n.picture())
		}
	}()
	n.eventually(what, func() bool {
		picture := n.picture()
		for _, part := range parts {
			if !strings.Contains(picture, part) {
				return false
			}
		}
		return true
	})
}

// recorded waits until the record contains a text, or no longer does.
func (n *node) recorded(text string, there bool) {
	n.t.Helper()
	defer func() {
		if n.t.Failed() {
			data, err := os.ReadFile(n.record())
			n.t.Logf("%v, the record has\n%s", err, data)
		}
	}()
	n.eventually("the record has "+text, func() bool {
		data, err := os.ReadFile(n.record())
		return err == nil && strings.Contains(string(data), text) == there
	})
}

// twoLegs gives up1 an address, too, and a route by it.
func (n *node) twoLegs() {
	n.t.Helper()
	n.Exec("ip", "link", "set", "up1", "up")
	n.Exec("ip", "address", "add", "192.0.2.7/24", "dev", "up1")
	n.Exec("ip", "address", "add", "2001:db8:8::7/64", "dev", "up1", "nodad")
	n.Exec("ip", "route", "add", "203.0.115.0/24", "via", "192.0.2.1", "dev", "up1")
}

// refusing runs a keeper of a bond of up0 and up1, one of which the switch refuses.
func (n *node) refusing(link string) (b *uplink.Bridge, stop func()) {
	n.t.Helper()
	resume := sync.OnceFunc(n.PauseVswitchd())
	defer resume()
	b, stop = n.keep(uplink.ActiveBackup, "up0", "up1")
	n.eventually("the link has a row", func() bool {
		return strings.Contains(n.Vsctl("list-ifaces", uplink.DefaultBridge), link)
	})
	n.Vsctl("--no-wait", "set", "interface", link, "type=no-such-type")
	resume()
	n.says(b, "uplink "+link+": could not open network device "+link)
	return b, stop
}

// The present addresses of the local port are recorded for a link that was moved there, also while the switch
// refuses another one, which keeps its own.
func TestWhatComesLaterIsNotedWhileTheOtherLinkIsRefused(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.twoLegs()
	n.Exec("ip", "address", "add", "198.51.100.8/24", "dev", "up0")
	_, stop := n.keep("", "up0")
	n.has("the host is on the bridge", "contivUplink    inet 198.51.100.7/24", "up1    inet 192.0.2.7/24")
	stop()
	b, stop := n.refusing("up1")
	n.has("the link that is refused keeps what it has", "contivUplink    inet 198.51.100.7/24", "up1    inet 192.0.2.7/24")

	n.Exec("ip", "address", "add", "198.51.100.9/24", "dev", uplink.DefaultBridge)
	n.recorded("198.51.100.9", true)
	n.Exec("ip", "address", "del", "198.51.100.8/24", "dev", uplink.DefaultBridge)
	n.recorded("198.51.100.8", false)
	n.Vsctl("del-br", uplink.DefaultBridge) // the next row of up1 is not refused
	n.has("another local port has it, too", "contivUplink    inet 198.51.100.9/24", "contivUplink    inet 192.0.2.7/24")
	n.says(b, "")
	stop()
	n.undo()
	n.has("each link has what is its own", "up0    inet 198.51.100.9/24", "up1    inet 192.0.2.7/24")
}

// A netplugin of an earlier version recorded once, for all links, that the local port has everything.
func TestARecordOfBeforeIsUnderstood(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("ip", "address", "add", "198.51.100.8/24", "dev", "up0")
	before := n.picture()
	_, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	stop()
	n.spoilRecord(func(r map[string]any) {
		up0 := r["links"].(map[string]any)["up0"].(map[string]any)
		r["local"] = up0["local"]
		delete(up0, "local")
	})
	n.Exec("ip", "address", "del", "198.51.100.8/24", "dev", uplink.DefaultBridge)
	n.undo()
	n.has("the link has the rest", "up0    inet 198.51.100.7/24")
	if have := n.picture(); strings.Contains(have, "198.51.100.8") {
		t.Errorf("the link has what the local port had no more:\n%s", have)
	}
}

// A refused link keeps its MAC for itself, like its addresses.
func TestTheLocalPortHasNotTheMACOfALinkThatIsRefused(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.twoLegs()
	_, stop := n.keep("", "up1")
	n.has("the host is on the bridge", "contivUplink    inet 192.0.2.7/24", "up0    inet 198.51.100.7/24")
	stop()
	n.refusing("up0")
	n.eventually("the local port has the MAC of the other link", func() bool { return n.mac(uplink.DefaultBridge) == n.mac("up1") })
	n.has("each has its own", "contivUplink    inet 192.0.2.7/24", "203.0.115.0/24 via 192.0.2.1 dev contivUplink", "up0    inet 198.51.100.7/24")
	n.hostReaches("198.51.100.1")
}

// Addresses and routes of a link that is refused later are no longer on the link: the local port has those that
// can be there.
func TestALinkThatIsRefusedLaterLeavesTheHostWhatItHad(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.twoLegs()
	b, _ := n.keep(uplink.ActiveBackup, "up0", "up1")
	moved := []string{"contivUplink    inet 198.51.100.7/24", "contivUplink    inet 192.0.2.7/24", "203.0.115.0/24 via 192.0.2.1 dev contivUplink"}
	n.has("the host is on the bridge", moved...)
	n.Vsctl("set", "interface", "up1", "type=no-such-type")
	n.says(b, "uplink up1: could not open network device up1")
	n.KillVswitchd()
	n.Exec("ip", "link", "delete", uplink.DefaultBridge)
	n.StartVswitchd()
	n.has("another local port", moved...)
	n.hostReaches("198.51.100.1")
}
