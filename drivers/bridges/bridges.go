// Package bridges combines the two drivers of a node that has a physical network beside the tunnels into one.
//
//	agent --> Pair --+-- bridge with the tunnel:  networks of encapsulation vxlan
//	                 +-- bridge with the uplink:  networks of encapsulation vlan
//	                           +-- the uplinks' own bridge, to the physical network
//
// A network, its endpoints and its flood set belong to one bridge, by the network's encapsulation; rules belong to
// both. A network that is recreated with the other encapsulation moves to the other bridge.
package bridges

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Pair implements drivers.NetworkDriver.
type Pair struct {
	tunnel, uplink drivers.NetworkDriver
	links          Uplinks

	mu   sync.Mutex
	vlan map[pipeline.Key]struct{} // objects that are on the uplink's bridge only
}

var _ drivers.NetworkDriver = (*Pair)(nil)

// Uplinks manages the links of the uplink's bridge.
type Uplinks interface {
	// Run manages them until ctx is done.
	Run(ctx context.Context) error
	// Problem returns the present fault of the links, "" if there is none.
	Problem() string
	// States returns the fault of each link, "" if it has none. Callers must not change the result.
	States() map[string]string
}

// New combines the drivers of two bridges.
func New(tunnel, uplink drivers.NetworkDriver, links Uplinks) *Pair {
	return &Pair{tunnel: tunnel, uplink: uplink, links: links, vlan: map[pipeline.Key]struct{}{}}
}

func (p *Pair) both() []drivers.NetworkDriver { return []drivers.NetworkDriver{p.tunnel, p.uplink} }

// Run runs all; each ends when another does.
func (p *Pair) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range p.both() {
		group.Go(func() error { return d.Run(ctx) })
	}
	group.Go(func() error { return p.links.Run(ctx) })
	return group.Wait()
}

// Update passes each object to its bridge. Removed objects, and those that now belong to the other bridge, are
// removed from the bridge that had them.
func (p *Pair) Update(c drivers.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tunnel, uplink := drivers.Change{Replace: c.Replace, Known: c.Known}, drivers.Change{Replace: c.Replace, Known: c.Known}
	if c.Replace {
		clear(p.vlan)
	}
	for _, key := range c.Remove {
		if p.takeOff(key, &uplink) {
			continue
		}
		tunnel.Remove = append(tunnel.Remove, key)
		if pipeline.Shared(key.Kind) {
			uplink.Remove = append(uplink.Remove, key)
		}
	}
	for _, o := range c.Set {
		switch encap, shared := pipeline.EncapOf(o); {
		case shared:
			tunnel.Set, uplink.Set = append(tunnel.Set, o), append(uplink.Set, o)
		case encap == pipeline.VLAN:
			if _, there := p.vlan[o.Key()]; !there {
				p.vlan[o.Key()] = struct{}{}
				tunnel.Remove = append(tunnel.Remove, o.Key())
			}
			uplink.Set = append(uplink.Set, o)
		default:
			p.takeOff(o.Key(), &uplink)
			tunnel.Set = append(tunnel.Set, o)
		}
	}
	for _, e := range c.Left {
		if e.Encap == pipeline.VLAN {
			uplink.Left = append(uplink.Left, e)
		} else {
			tunnel.Left = append(tunnel.Left, e)
		}
	}
	for d, part := range map[drivers.NetworkDriver]drivers.Change{p.tunnel: tunnel, p.uplink: uplink} {
		if part.Replace || len(part.Remove)+len(part.Set)+len(part.Left) > 0 {
			d.Update(part)
		}
	}
}

// takeOff removes an object from the uplink's bridge and reports whether it was there.
func (p *Pair) takeOff(key pipeline.Key, c *drivers.Change) bool {
	if _, there := p.vlan[key]; !there {
		return false
	}
	delete(p.vlan, key)
	c.Remove = append(c.Remove, key)
	return true
}

// split returns the keys by bridge; rules are on both.
func (p *Pair) split(keys []pipeline.Key) (tunnel, uplink []pipeline.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		_, vlan := p.vlan[key]
		if !vlan {
			tunnel = append(tunnel, key)
		}
		if vlan || pipeline.Shared(key.Kind) {
			uplink = append(uplink, key)
		}
	}
	return tunnel, uplink
}

// Sync waits for the bridges that have the objects.
func (p *Pair) Sync(ctx context.Context, keys ...pipeline.Key) error {
	tunnel, uplink := p.split(keys)
	var group sync.WaitGroup
	problems := make([]error, 2)
	for i, part := range [][]pipeline.Key{tunnel, uplink} {
		if len(part) > 0 || len(keys) == 0 {
			group.Go(func() { problems[i] = p.both()[i].Sync(ctx, part...) })
		}
	}
	group.Wait()
	return errors.Join(problems...)
}

// AddPort adds a port to the bridge for the encapsulation.
func (p *Pair) AddPort(ctx context.Context, encap pipeline.Encap, endpointID string, podNetNS int) (drivers.Port, error) {
	if encap == pipeline.VLAN {
		return p.uplink.AddPort(ctx, encap, endpointID, podNetNS)
	}
	return p.tunnel.AddPort(ctx, encap, endpointID, podNetNS)
}

// FindPort looks on both bridges.
func (p *Pair) FindPort(ctx context.Context, endpointID string) (drivers.Port, error) {
	port, err := p.tunnel.FindPort(ctx, endpointID)
	if fault.Is(err, fault.NotFound) {
		return p.uplink.FindPort(ctx, endpointID)
	}
	return port, err
}

// RemovePort removes an endpoint's port from the bridge that has it.
func (p *Pair) RemovePort(ctx context.Context, endpointID string) error {
	return errors.Join(p.tunnel.RemovePort(ctx, endpointID), p.uplink.RemovePort(ctx, endpointID))
}

// PortUsed asks the bridge that has the port.
func (p *Pair) PortUsed(endpointID string) (bool, error) {
	if used, err := p.tunnel.PortUsed(endpointID); used || err != nil {
		return used, err
	}
	return p.uplink.PortUsed(endpointID)
}

// Ports returns the ports of both bridges.
func (p *Pair) Ports() []drivers.Port {
	list := append(p.tunnel.Ports(), p.uplink.Ports()...)
	slices.SortFunc(list, func(a, b drivers.Port) int { return strings.Compare(a.EndpointID, b.EndpointID) })
	return list
}

// Counters adds up the counters of the bridges; a rule is on both.
func (p *Pair) Counters(ctx context.Context, keys ...pipeline.Key) (map[pipeline.Key]drivers.Counters, error) {
	all := make(map[pipeline.Key]drivers.Counters, len(keys))
	tunnel, uplink := p.split(keys)
	for i, part := range [][]pipeline.Key{tunnel, uplink} {
		counted, err := p.both()[i].Counters(ctx, part...)
		if err != nil {
			return nil, err
		}
		for key, c := range counted {
			sum := all[key]
			sum.Sent, sum.Received = added(sum.Sent, c.Sent), added(sum.Received, c.Received)
			sum.Decided = added(sum.Decided, c.Decided)
			if c.Served != nil {
				sum.Served = c.Served // services are on one bridge
			}
			all[key] = sum
		}
	}
	return all, nil
}

func added(a, b drivers.Count) drivers.Count {
	return drivers.Count{Packets: a.Packets + b.Packets, Bytes: a.Bytes + b.Bytes}
}

// Status reports good states only if both bridges have them. Numbers are sums.
func (p *Pair) Status() drivers.Status {
	tunnel, uplink := p.tunnel.Status(), p.uplink.Status()
	if uplink.LastError == "" {
		uplink.LastError = p.links.Problem()
	}
	uplink.Uplinks = p.links.States()
	s := tunnel
	s.VXLAN, s.VLAN = &tunnel, &uplink
	s.PortAdded = tunnel.PortAdded || uplink.PortAdded
	s.Connected, s.InSync = tunnel.Connected && uplink.Connected, tunnel.InSync && uplink.InSync
	s.Lost = tunnel.Lost || uplink.Lost
	s.Flows, s.Others, s.Ports = tunnel.Flows+uplink.Flows, tunnel.Others+uplink.Others, tunnel.Ports+uplink.Ports
	if s.LastError == "" {
		s.LastError = uplink.LastError
	}
	return s
}
