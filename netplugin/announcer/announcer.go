// Package announcer tells the physical network where a node's endpoints are.
//
// Switches outside learn from what endpoints send. When a link to them comes back, it
// may lead to another switch than before, or to one that has forgotten everything, and
// what is for an endpoint that only listens goes astray. So whenever an uplink works
// again, each endpoint of the node's bridged VLANs announces itself: by gratuitous ARP,
// and by an unsolicited neighbour advertisement.
//
// The frames enter the switch by the port of their endpoint and go through its tables:
// they get their VLAN there, as all that the endpoint sends, and other endpoints of the
// network hear them, too.
package announcer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Driver is one that sends packets.
type Driver interface {
	drivers.NetworkDriver
	Send(ctx context.Context, packet openflow.PacketOut) error
}

// rounds are how long after the return of an uplink all endpoints are announced: the
// switch may be busy and use the link later than we see it, and the sides may take
// seconds to agree on a bond, or half a minute on a tree without loops.
var rounds = []time.Duration{0, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second}

// Announcer is a driver whose endpoints announce themselves.
type Announcer struct {
	Driver
	returned <-chan struct{}
	log      *logrus.Entry

	mu    sync.Mutex
	local map[pipeline.Key]pipeline.Endpoint
}

// New announces the endpoints of a driver whenever a value comes from returned.
func New(d Driver, returned <-chan struct{}) *Announcer {
	return &Announcer{
		Driver: d, returned: returned, log: logrus.WithField("component", "announcer"), local: map[pipeline.Key]pipeline.Endpoint{},
	}
}

// Run runs the driver and announces its endpoints until ctx is done.
func (a *Announcer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Driver.Run(ctx) })
	group.Go(func() error { return a.announce(ctx) })
	return group.Wait()
}

// Update passes a change on, and remembers whom to announce.
func (a *Announcer) Update(c drivers.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Replace {
		clear(a.local)
	}
	for _, key := range c.Remove {
		delete(a.local, key)
	}
	for _, o := range c.Set {
		if e, ok := o.(pipeline.Endpoint); ok && e.Local && e.Mode.Bridged() {
			a.local[o.Key()] = e
		} else {
			delete(a.local, o.Key())
		}
	}
	a.Driver.Update(c)
}

// announce does the rounds; a link that returns meanwhile begins them anew.
func (a *Announcer) announce(ctx context.Context) error {
	left, next := []time.Duration{}, time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.returned:
			left = rounds
		case <-next.C:
		}
		if len(left) == 0 {
			continue
		}
		done := left[0]
		a.all(ctx)
		if left = left[1:]; len(left) > 0 {
			next.Reset(left[0] - done)
		}
	}
}

// all announces every endpoint that has a port by now. What cannot be sent ends the
// round: the switch is away.
func (a *Announcer) all(ctx context.Context) {
	ports := map[string]uint32{}
	for _, p := range a.Ports() {
		ports[p.EndpointID] = p.OFPort
	}
	a.mu.Lock()
	var endpoints []pipeline.Endpoint
	for _, e := range a.local {
		if ports[e.ID] != 0 {
			endpoints = append(endpoints, e)
		}
	}
	a.mu.Unlock()
	slices.SortFunc(endpoints, func(a, b pipeline.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	log := a.log.WithField("endpoints", len(endpoints))
	for _, e := range endpoints {
		for _, frame := range framesOf(e) {
			packet := openflow.PacketOut{InPort: ports[e.ID], Actions: []openflow.Action{openflow.Output{Port: openflow.PortTable}}, Data: frame}
			if err := a.Send(ctx, packet); err != nil {
				if ctx.Err() == nil {
					log.WithField("endpoint", e.ID).WithError(err).Warn("an uplink has returned, and the network outside is not told where endpoints are")
				}
				return
			}
		}
	}
	log.Debug("an uplink has returned: endpoints are announced")
}
