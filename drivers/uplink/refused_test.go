package uplink_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// A link that Open vSwitch refuses has a row and is no port: no packet would leave the bridge by it. The host
// keeps its addresses there until the link is a port.
func TestTheHostStaysOnALinkThatTheSwitchRefuses(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep("", "up1") // makes the local port
	n.reaches("by the other link")
	stop()

	resume := sync.OnceFunc(n.PauseVswitchd())
	defer resume()
	b, _ := n.keep("", "up0")
	n.eventually("the link has a row", func() bool {
		return strings.Contains(n.Vsctl("list-ifaces", uplink.DefaultBridge), "up0")
	})
	n.Vsctl("--no-wait", "set", "interface", "up0", "type=no-such-type")
	resume()
	n.says(b, "uplink up0: could not open network device up0")
	if after := n.picture(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	n.hostReaches("198.51.100.1")

	n.Vsctl("set", "interface", "up0", "type=system")
	n.isOnBridge("once the link is a port", before)
	n.says(b, "")
}
