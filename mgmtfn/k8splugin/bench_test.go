package k8splugin_test

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/fakenode"
)

// BenchmarkAdd is one ADD through the socket, on a datapath that costs one veth
// pair, with the link moved into the container and made there.
func BenchmarkAdd(b *testing.B) {
	node := fakenode.NewNode(b)
	netns := fakenode.NewNamespace(b)
	for name, datapath := range datapaths(node) {
		b.Run(name, func(b *testing.B) {
			stop := node.Start(b, func(c *k8splugin.Config) { c.Datapath = datapath })
			defer stop()
			for i := 0; b.Loop(); i++ {
				pod := fmt.Sprintf("pod%d", i)
				do(b, node, request(cniwire.Add, pod, netns, ""))
				b.StopTimer()
				do(b, node, request(cniwire.Del, pod, netns, ""))
				b.StartTimer()
			}
		})
	}
}
