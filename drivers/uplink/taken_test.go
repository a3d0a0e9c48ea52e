package uplink_test

import (
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// A name is that of one port of all bridges. Somebody else's port is left alone, and the host stays on its links until
// it is gone.
func TestTheHostStaysOnItsLinksWhileAnotherBridgeHasANameOfOurs(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, name := range []string{uplink.DefaultBridge, uplink.PeerPort, "uplinkPort"} {
		t.Run(name, func(t *testing.T) {
			n := aHost(t)
			before := n.picture()
			n.AddBridge("br-other")
			n.Vsctl("add-port", "br-other", name, "--", "set", "interface", name, "type=internal")
			b, _ := n.keep("", "up0", "up1")
			n.says(b, "bridge contivUplink: port "+name+" of bridge br-other has the name of ours: remove or rename it")
			if after := n.picture(); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			n.Vsctl("del-port", "br-other", name)
			n.isOnBridge("once the name is free", before)
			n.says(b, "")
		})
	}
}
