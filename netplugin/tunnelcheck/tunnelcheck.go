// Package tunnelcheck finds out which other nodes are reached by tunnels. That a node is registered says nothing of
// that: its link to the network of tunnels may be down, or something between may filter UDP 4789.
//
// Nobody is asked before somebody wants to know, as a thousand nodes that always asked each other would be a load. The
// switches of the others answer by themselves (ofnet/pipeline/echo.go).
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

// A node that is silent is asked so many times in all, after so long. So many are asked at once: their answers wait for
// us in the driver, which has not room for many more.
const (
	tries    = 3
	patience = 300 * time.Millisecond
	together = 32
)

// Checker asks other nodes through the switch that has the tunnel.
type Checker struct {
	bus    drivers.PacketBus
	others func() map[string]netip.Addr // tunnel addresses, by host
	asking chan struct{}                // holds a value while somebody asks
	number uint64                       // of the last questions, whose answers have it, too
}

// New makes a checker of the nodes that others tells.
func New(bus drivers.PacketBus, others func() map[string]netip.Addr) *Checker {
	return &Checker{bus: bus, others: others, asking: make(chan struct{}, 1)}
}

// Ask tells of the other nodes, by host, whether they answer. Those for whom ctx has left no time are not in the answer.
// The error says that the switch takes no questions.
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
	answers := c.bus.Packets(pipeline.PacketEcho) // before anybody answers: the driver keeps what somebody waits for
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
