package k8splugin_test

import (
	"os/exec"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
)

// holder counts the containers that a server holds.
type holder struct {
	k8splugin.Datapath
	held int
}

func (h *holder) Hold(k8splugin.Attachment) { h.held++ }

// A datapath does not serve a node with another name while it holds containers of the former one. Those that ended
// with the machine are none.
func TestContainersThatAMachineLostBeforeItWasRenamedAreNotHeld(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
	stop()
	heldAs := func(name string) int {
		t.Helper()
		config := node.Config()
		h := &holder{Datapath: config.Datapath}
		config.Datapath, config.HostLabel = h, name
		if _, err := k8splugin.New(config); err != nil {
			t.Fatal(err)
		}
		return h.held
	}
	if own, other := heldAs(fakenode.HostLabel), heldAs("renamed"); own != 1 || other != 1 {
		t.Errorf("of one container %d are held, %d under another name", own, other)
	}
	for _, p := range node.Switch.Ports() {
		if out, err := exec.Command("ip", "link", "del", p.HostLink).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if own, other := heldAs(fakenode.HostLabel), heldAs("renamed"); own != 1 || other != 0 {
		t.Errorf("of one container without a link %d are held, %d under another name", own, other)
	}
}
