package ovsd

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The kernel's datapath hands tunnelled packets to the host's IP stack, which
// finds neighbours by itself. The userspace datapath has a neighbour table of
// its own, filled from the replies that come in for the host's addresses, and
// loses the first packet to a peer that is not in it. So that this is nobody's
// packet, the host is made to ask for a peer when the first endpoint there
// becomes known, when the switch was restarted, and at every audit: an entry
// that nobody uses goes after 15 minutes.

// peers counts the remote endpoints behind each tunnel address.
type peers map[netip.Addr]int

// replace takes note that an object took the place of another; either may be
// nil. It returns the peer that is new, if one is.
func (p peers) replace(old, now pipeline.Object) (met netip.Addr) {
	if vtep, ok := peerOf(now); ok {
		if p[vtep]++; p[vtep] == 1 {
			met = vtep
		}
	}
	if vtep, ok := peerOf(old); ok {
		if p[vtep]--; p[vtep] == 0 {
			delete(p, vtep)
		}
	}
	return met
}

func peerOf(o pipeline.Object) (netip.Addr, bool) {
	e, ok := o.(pipeline.Endpoint)
	return e.VTEP, ok && !e.Local && e.VTEP.IsValid()
}

// solicit makes the host ask its link for a neighbour, also when it believes
// to know the answer. A peer that is not on a link of ours is reached by way of
// a router, which is then the one to ask for.
func (l *links) solicit(peer netip.Addr) error {
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
	known, err := l.handle.NeighList(ask.LinkIndex, ask.Family)
	if err != nil {
		return fmt.Errorf("neighbours of link %d: %w", ask.LinkIndex, err)
	}
	for _, n := range known {
		if n.IP.Equal(ask.IP) && len(n.HardwareAddr) > 0 {
			ask.HardwareAddr, ask.State, ask.Flags = n.HardwareAddr, netlink.NUD_PROBE, 0
		}
	}
	if err := l.handle.NeighSet(&ask); err != nil {
		return fmt.Errorf("solicit peer %s: %w", peer, err)
	}
	return nil
}
