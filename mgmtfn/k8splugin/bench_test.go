package k8splugin_test

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/fakenode"
)

// BenchmarkAdd is one ADD and one DEL through the socket, on a datapath that
// costs one veth pair.
func BenchmarkAdd(b *testing.B) {
	node := fakenode.NewNode(b)
	node.Start(b)
	netns := fakenode.NewNamespace(b)
	for i := 0; b.Loop(); i++ {
		for _, command := range []string{cniwire.Add, cniwire.Del} {
			if _, err := node.Do(request(command, fmt.Sprintf("c%d", i), netns, "")); err != nil {
				b.Fatal(err)
			}
		}
	}
}
