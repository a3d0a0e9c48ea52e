package testbed

import (
	"context"
	"errors"

	"github.com/contiv/netplugin/test/drops"
)

// Drops counts the packets that the nodes' kernels and switches have dropped so far, and the kernel at sockets of
// pods.
func (b *Bed) Drops(ctx context.Context, pods ...*Pod) (drops.Counts, error) {
	c := drops.Counts{}
	errs := []error{c.AddProcessors()}
	for _, n := range b.Nodes {
		sockets, err := n.Run(ctx, drops.SocketsCommand...)
		errs = append(errs, err, c.AddSockets(n.Name, sockets))
		counters, err := n.Run(ctx, "ovs-appctl", "--timeout=5", drops.SwitchCommand)
		errs = append(errs, err, c.AddSwitch(n.Name, counters))
	}
	for _, p := range pods {
		sockets, err := p.Run(ctx, drops.SocketsCommand...)
		errs = append(errs, err, c.AddSockets(p.Name, sockets))
	}
	return c, errors.Join(errs...)
}
