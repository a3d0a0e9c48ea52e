package k8splugin_test

import (
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/test/fakenode"
)

func TestAPortThatNoCheckpointKnowsIsMadeAnew(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	elsewhere, err := podlink.Open(fakenode.NewNamespace(t))
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	if _, err := node.Switch.PreparePort(t.Context(), "default-net.default-pod", elsewhere.FD()); err != nil {
		t.Fatal(err)
	}
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	do(t, node, request(cniwire.Del, "pod", "", ""))
	node.NothingLeft(t)
}
