// Package announcer announces to the physical network where a node's endpoints are.
//
// External switches learn addresses from the frames of endpoints. When a link to them comes back, it may lead to
// another switch than before, or to one that has lost its table, and frames for an endpoint that only listens go
// astray. So whenever an uplink returns, each endpoint of the node's bridged VLANs is announced: by gratuitous
// ARP, and by an unsolicited neighbour advertisement.
//
// The frames enter the switch by the port of their endpoint and pass its tables: there they get their VLAN, like
// all frames of the endpoint, and other endpoints of the network receive them, too.
package announcer

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/announce"
)

// Driver is a driver that can send packets.
type Driver interface {
	drivers.NetworkDriver
	Send(ctx context.Context, packet openflow.PacketOut) error
}

// Announcer is a driver that announces its endpoints.
type Announcer struct {
	Driver
	returned <-chan struct{}
	log      *logrus.Entry

	mu    sync.Mutex
	local map[pipeline.Key]pipeline.Endpoint
}

// New returns an announcer of a driver's endpoints, which announces whenever returned yields a value.
func New(d Driver, returned <-chan struct{}) *Announcer {
	return &Announcer{
		Driver: d, returned: returned, log: logrus.WithField("component", "announcer"), local: map[pipeline.Key]pipeline.Endpoint{},
	}
}

// Run runs the driver and announces its endpoints until ctx is done.
func (a *Announcer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Driver.Run(ctx) })
	group.Go(func() error { return announce.InRounds(ctx, a.returned, a.all) })
	return group.Wait()
}

// Update passes a change on, and records the endpoints to announce.
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

// all announces every endpoint that has a port. It stops at the first frame that cannot be sent, since the switch
// is then not connected.
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

// framesOf returns the announcements of an endpoint, one for each of its addresses.
func framesOf(e pipeline.Endpoint) (frames [][]byte) {
	for _, own := range []netip.Addr{e.IPv4, e.IPv6} {
		if own.IsValid() {
			frames = append(frames, announce.Sender{MAC: e.MAC}.Frame(own))
		}
	}
	return frames
}
