package ovsd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/notify"
)

// The kernel's datapath sends tunnelled packets through the host's IP stack, which
// resolves neighbours (ARP, ND). The userspace datapath has a neighbour table of
// its own, filled from replies to the host's addresses, and
// drops the first packet to a peer that is not in it. To fill it in time,
// the driver makes the host send an ARP or ND request for a peer: when the first endpoint
// there becomes known, after a restart of the switch, and at every audit, as unused
// entries expire after 15 minutes.

// peers counts the remote endpoints behind each tunnel address. Its goroutine (run)
// solicits the pending ones.
type peers struct {
	wake notify.Signal

	mu      sync.Mutex
	count   map[netip.Addr]int
	pending map[netip.Addr]bool // to be solicited
}

func newPeers() *peers {
	return &peers{wake: notify.New(), count: map[netip.Addr]int{}, pending: map[netip.Addr]bool{}}
}

// replace updates the counts for an object that replaces another; either may be
// nil.
func (p *peers) replace(old, now pipeline.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if vtep, ok := peerOf(now); ok {
		if p.count[vtep]++; p.count[vtep] == 1 {
			p.pending[vtep] = true
			p.wake.Send()
		}
	}
	if vtep, ok := peerOf(old); ok {
		if p.count[vtep]--; p.count[vtep] == 0 {
			delete(p.count, vtep)
			delete(p.pending, vtep)
		}
	}
}

// solicitAll makes all peers pending.
func (p *peers) solicitAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for vtep := range p.count {
		p.pending[vtep] = true
	}
	p.wake.Send()
}

// all returns the tunnel addresses of other nodes.
func (p *peers) all() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.count))
}

func (p *peers) take() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.Collect(maps.Keys(p.pending))
	clear(p.pending)
	return list
}

// run solicits until ctx is done.
func (p *peers) run(ctx context.Context, solicit func([]netip.Addr) error, log *logrus.Entry) error {
	for {
		select {
		case <-p.wake:
			if err := solicit(p.take()); err != nil {
				log.WithError(err).Warn("the first packets to some peers may be lost")
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// peerOf returns the tunnel address of a remote endpoint in a vxlan network. Endpoints in VLANs have none: package
// border resolves their next hops, and a node that is no router may have no route there.
func peerOf(o pipeline.Object) (netip.Addr, bool) {
	e, ok := o.(pipeline.Endpoint)
	return e.VTEP, ok && !e.Local && e.Encap == pipeline.VXLAN && e.VTEP.IsValid()
}

// solicit makes the host send an ARP or ND request for each peer, also for those in its neighbour table.
// For a peer behind a router it requests the router's address.
func (l *links) solicit(peers []netip.Addr) error {
	if len(peers) == 0 {
		return nil
	}
	known, err := l.neighbours()
	if err != nil {
		return err
	}
	var problems []error
	for _, peer := range peers {
		problems = append(problems, l.solicitPeer(peer, known))
	}
	return errors.Join(problems...)
}

// onLink is a neighbour's address on a link.
type onLink struct {
	link int
	ip   string // of 16 bytes
}

// neighbours returns the neighbours whose MAC the host knows.
func (l *links) neighbours() (map[onLink]netlink.Neigh, error) {
	list, err := l.handle.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("neighbours: %w", err)
	}
	known := map[onLink]netlink.Neigh{}
	for _, n := range list {
		if len(n.HardwareAddr) > 0 {
			known[onLink{n.LinkIndex, string(n.IP.To16())}] = n
		}
	}
	return known, nil
}

func (l *links) solicitPeer(peer netip.Addr, known map[onLink]netlink.Neigh) error {
	routes, err := l.handle.RouteGet(net.IP(peer.AsSlice()))
	if err != nil || len(routes) == 0 {
		return fmt.Errorf("route to peer %s: %w", peer, err)
	}
	ask := netlink.Neigh{LinkIndex: routes[0].LinkIndex, IP: net.IP(peer.AsSlice()), Family: netlink.FAMILY_V4, Flags: netlink.NTF_USE}
	if peer.Is6() {
		ask.Family = netlink.FAMILY_V6
	}
	if routes[0].Gw != nil {
		ask.IP = routes[0].Gw
	}
	if n, ok := known[onLink{ask.LinkIndex, string(ask.IP.To16())}]; ok {
		if n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
			return nil // a static entry stays as it is
		}
		ask.HardwareAddr, ask.State, ask.Flags = n.HardwareAddr, netlink.NUD_PROBE, 0
	}
	if err := l.handle.NeighSet(&ask); err != nil {
		return fmt.Errorf("solicit peer %s: %w", peer, err)
	}
	return nil
}
