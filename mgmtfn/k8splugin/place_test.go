package k8splugin_test

import (
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/fakenode"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
)

// datapaths are the two kinds: one whose links are moved, one that places them.
func datapaths(node *fakenode.Node) map[string]k8splugin.Datapath {
	return map[string]k8splugin.Datapath{"moved": node.Switch, "placed": fakenode.Placing{Switch: node.Switch}}
}

func TestALinkIsMovedOrMadeInPlace(t *testing.T) {
	node := fakenode.NewNode(t)
	for name, datapath := range datapaths(node) {
		t.Run(name, func(t *testing.T) {
			stop := node.Start(t, func(c *k8splugin.Config) { c.Datapath = datapath })
			defer stop()
			netns := fakenode.NewNamespace(t)
			for range 2 {
				do(t, node, request(cniwire.Add, "pod", netns, ""))
			}
			do(t, node, request(cniwire.Check, "pod", netns, ""))
			fakenode.InNamespace(t, netns, "ping", "-c1", "-W2", "10.1.0.1")
			do(t, node, request(cniwire.Del, "pod", netns, ""))
			node.NothingLeft(t)
		})
	}
}

func TestAPortThatNoCheckpointKnowsIsMadeAnew(t *testing.T) {
	node := fakenode.NewNode(t)
	for name, datapath := range datapaths(node) {
		t.Run(name, func(t *testing.T) {
			stop := node.Start(t, func(c *k8splugin.Config) { c.Datapath = datapath })
			defer stop()
			port, err := node.Switch.PreparePort(t.Context(), "default-net.default-pod")
			if err != nil {
				t.Fatal(err)
			}
			elsewhere, err := podlink.Open(fakenode.NewNamespace(t))
			if err != nil {
				t.Fatal(err)
			}
			defer elsewhere.Close()
			if err := elsewhere.Move(port.PodLink, "eth0"); err != nil {
				t.Fatal(err)
			}
			do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
			do(t, node, request(cniwire.Del, "pod", "", ""))
			node.NothingLeft(t)
		})
	}
}
