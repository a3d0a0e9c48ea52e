package uplink_test

import (
	"os"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// Routes that cannot be recorded are not moved, or they would be lost with the process that has moved them.
func TestALinkWithARouteThatCannotBeWrittenDownStaysAsItIs(t *testing.T) {
	n := aHost(t)
	n.Exec("ip", "route", "add", "203.0.113.128/25", "via", "inet6", "fe80::1", "dev", "up0")
	before := n.picture()
	b, stop := n.keep("", "up0")
	defer stop()
	n.says(b, "cannot be moved")
	if got := n.picture(); got != before {
		t.Errorf("have\n%s\nhad\n%s", got, before)
	}
	n.Exec("ip", "route", "del", "203.0.113.128/25")
	n.isOnBridge("without that route", strings.ReplaceAll(before, "203.0.113.128/25 via inet6 fe80::1 dev up0 \n", ""))
}

// A link that is a port already, as after a boot, is moved all the same: otherwise the host would not be reached.
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
