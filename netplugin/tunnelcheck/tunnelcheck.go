// Package tunnelcheck finds out which other nodes are reachable by tunnels. A registered node may not be: its link
// to the network of tunnels may be down, or a filter on the path may drop UDP 4789.
//
// Nodes are probed only on request, since a thousand nodes that constantly probed each other would be a load. The
// switches of the other nodes answer by themselves (ofnet/pipeline/echo.go).
package tunnelcheck

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A silent node gets this many probes in all, after this interval. So many nodes are probed at once: the driver
// buffers their answers, and has not room for many more.
const (
	tries    = 3
	patience = 300 * time.Millisecond
	together = 32
)

// Checker probes other nodes through the switch that has the tunnel.
type Checker struct {
	bus    drivers.PacketBus
	others func() map[string]netip.Addr // tunnel addresses, by host
	asking chan struct{}                // holds a value during a check
	number uint64                       // of the last probes, which their answers repeat
}

// New returns a checker of the nodes that others returns.
func New(bus drivers.PacketBus, others func() map[string]netip.Addr) *Checker {
	return &Checker{bus: bus, others: others, asking: make(chan struct{}, 1)}
}

// Ask returns for each other node, by host, whether it answers; hosts that ctx has left no time for are missing.
// The error says that the switch does not accept the probes.
func (c *Checker) Ask(ctx context.Context) (map[string]bool, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	others, answered := c.others(), map[string]bool{}
	for hosts := range slices.Chunk(slices.Sorted(maps.Keys(others)), together) {
		silent := map[netip.Addr]bool{}
		for _, host := range hosts {
			silent[others[host]] = true
		}
		if err := c.sendProbes(ctx, silent); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			break
		}
		for _, host := range hosts {
			answered[host] = !silent[others[host]]
		}
	}
	return answered, nil
}

// sendProbes sends probes to the silent nodes, up to tries times, and removes those that answer from silent.
func (c *Checker) sendProbes(ctx context.Context, silent map[netip.Addr]bool) error {
	c.number++
	answers := c.bus.Packets(pipeline.PacketEcho) // before any answer: packets are buffered from the first call
	for range tries {
		for vtep := range silent {
			if err := c.bus.Send(ctx, pipeline.AskNode(vtep, c.number)); err != nil && ctx.Err() == nil {
				return err
			}
		}
		c.receiveAnswers(ctx, answers, silent)
	}
	return nil
}

// receiveAnswers waits for answers, up to the time limit.
func (c *Checker) receiveAnswers(ctx context.Context, answers <-chan pipeline.Packet, silent map[netip.Addr]bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for len(silent) > 0 {
		select {
		case p := <-answers:
			if vtep, number, ok := p.AnsweredBy(); ok && number == c.number {
				delete(silent, vtep)
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
