package k8splugin_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
)

// absent is a switch that never ran: a detachment waits for it as long as it may.
type absent struct{ k8splugin.Datapath }

func (absent) Detach(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// punctual is a master that answers no request whose deadline has passed.
type punctual struct{ k8splugin.Master }

func (m punctual) DeleteEndpoint(ctx context.Context, r mastercfg.DeleteEndpointRequest) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return m.Master.DeleteEndpoint(ctx, r)
}

func TestAnAddressIsGivenBackThoughTheSwitchIsAway(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))
	stop()
	stop = node.Start(t, func(c *k8splugin.Config) {
		c.Datapath, c.Master, c.Limits.Undo = absent{c.Datapath}, punctual{c.Master}, 100*time.Millisecond
	})
	do(t, node, request(cniwire.Del, "pod", "", ""))
	if knows(t, node, podEndpoint) {
		t.Error("the master was not told of the DEL")
	}
	if !slices.Contains(node.Leftovers(t), "file "+node.StateDir()+"/pod@eth0.json") {
		t.Error("the port, which is still there, is forgotten")
	}
	stop()
	node.Start(t)
	node.NothingLeft(t)
}
