package uplink_test

import (
	"strings"
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

// On a bridge that is there the host goes on while one of its ports is missing for that reason, also with a new local port.
func TestTheHostGoesOnOnItsBridgeWhileAnotherOneHasANameOfOurs(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	before := n.picture()
	_, stop := n.keep("", "up0")
	n.isOnBridge("at first", before)
	stop()
	n.AddBridge("br-other")
	n.Vsctl("del-port", uplink.PeerPort)
	n.Vsctl("add-port", "br-other", uplink.PeerPort, "--", "set", "interface", uplink.PeerPort, "type=internal")
	b, _ := n.keep("", "up0")
	told := "port " + uplink.PeerPort + " of bridge br-other has the name of ours"
	n.says(b, told)
	n.Exec("ip", "address", "add", "198.51.100.8/24", "dev", "up0")
	n.eventually("an address that came later follows", func() bool {
		return strings.Contains(n.Exec("ip", "address", "show", "dev", uplink.DefaultBridge), "198.51.100.8/24")
	})
	n.KillVswitchd()
	n.StartVswitchd()
	n.hostReaches("198.51.100.1")
	n.says(b, told)
	n.Vsctl("del-port", "br-other", uplink.PeerPort)
	n.says(b, "")
	n.reaches("once the name is free")
}
