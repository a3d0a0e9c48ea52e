package k8splugin_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
)

// Two runtimes may have one path for two namespaces. A program of the first release passes one by its own process id,
// which other processes have later.
func TestAnotherNamespaceAtTheSamePathLeavesAContainerAlone(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	path := filepath.Join(t.TempDir(), "netns")
	at := func(netns string) string {
		if err := errors.Join(os.RemoveAll(path), os.Symlink(netns, path)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	living, ended, other := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "living", at(living), ""))
	do(t, node, request(cniwire.Add, "ended", at(ended), ""))
	fakenode.EndNamespace(t, ended)
	fakenode.Eventually(t, "its link has gone with it", func() bool { _, err := net.InterfaceByName("vvport2"); return err != nil })
	do(t, node, request(cniwire.Add, "other", at(other), ""))
	for _, netns := range []string{living, other} {
		fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	}
	endpoints, err := node.Cluster.Endpoints()
	if want := []string{"default-net.default-living", "default-net.default-other"}; !slices.Equal(endpoints, want) || err != nil {
		t.Errorf("endpoints %q, %v; want %q", endpoints, err, want)
	}
	for _, container := range []string{"living", "ended", "other"} {
		do(t, node, request(cniwire.Del, container, "", ""))
	}
	node.NothingLeft(t)
}
