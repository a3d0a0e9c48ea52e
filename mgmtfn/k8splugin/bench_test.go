package k8splugin_test

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
)

// BenchmarkAdd measures one ADD through the socket, on a datapath with the cost of one veth pair.
func BenchmarkAdd(b *testing.B) {
	node := fakenode.NewNode(b)
	node.Start(b)
	netns := fakenode.NewNamespace(b)
	for i := 0; b.Loop(); i++ {
		pod := fmt.Sprintf("pod%d", i)
		do(b, node, request(cniwire.Add, pod, netns, ""))
		b.StopTimer()
		do(b, node, request(cniwire.Del, pod, netns, ""))
		b.StartTimer()
	}
}
