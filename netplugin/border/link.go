package border

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/rtwatch"
)

// routerOf returns the node as a router. Its MAC is derived from its address, as those of endpoints are, so
// that it is the same after a restart.
func routerOf(w *agent.BGP) pipeline.Router {
	four := w.Link.Addr().As4()
	return pipeline.Router{ID: Interface, MAC: [6]byte{2, 2, four[0], four[1], four[2], four[3]}, IPv4: w.Link.Addr(), IPv6: w.Link6.Addr()}
}

// linksOf returns the subnets of the node's next hops.
func linksOf(w *agent.BGP) [2]netip.Prefix { return [2]netip.Prefix{w.Link, w.Link6} }

// ensureInterface creates the host's interface, or corrects it.
func (b *Border) ensureInterface(ctx context.Context, w *agent.BGP) error {
	port, err := b.AddPort(ctx, pipeline.VLAN, Interface, 0)
	if err != nil {
		return err
	}
	addresses := []netip.Prefix{w.Link}
	if b.speaksIPv6(w) { // routers reach IPv6 pods by its link-local address; the kernel would generate another one, or none
		addresses = append(addresses, netip.PrefixFrom(routerOf(w).LinkLocal(), 64))
	}
	if w.Link6.IsValid() {
		addresses = append(addresses, w.Link6)
	}
	if err := separate(uplink.DefaultBridge); err != nil {
		return err
	}
	mac := routerOf(w).MAC
	if _, err = (hostaccess.Interface{
		Name: Interface, MAC: mac[:], Addresses: addresses, Userspace: b.Status().Datapath == datapathUserspace,
		SameWire: append([]string{uplink.DefaultBridge}, b.cfg.Uplinks...), Machines: b.cfg.Machines,
	}).Ensure(port); err != nil {
		return err
	}
	return separate(Interface)
}

// datapathUserspace is the name of the userspace datapath in a driver's status.
const datapathUserspace = "netdev"

// removeInterface removes the interface and its port.
func (b *Border) removeInterface(ctx context.Context) error {
	return errors.Join(b.RemovePort(ctx, Interface), b.arp.Remove(ctx))
}

// neighbours returns the MACs in the kernel's neighbour table of
// the interface. A next hop that does not answer is not included.
func neighbours(link netlink.Link) (map[netip.Addr][6]byte, error) {
	list, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("neighbours of %s: %w", Interface, err)
	}
	const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
	all := map[netip.Addr][6]byte{}
	for _, n := range list {
		a, ok := netip.AddrFromSlice(n.IP)
		if a = a.Unmap(); !ok || n.State&known == 0 || len(n.HardwareAddr) != 6 || n.HardwareAddr[0]&1 != 0 {
			continue
		}
		all[a] = [6]byte(n.HardwareAddr)
	}
	return all, nil
}

// listen sends met when the kernel's neighbour table changes.
func (b *Border) listen(ctx context.Context) error {
	return rtwatch.Watch(ctx, b.log, netns.None(), b.met.Send, unix.RTNLGRP_NEIGH)
}

// solicit makes the kernel resolve the MAC of a next hop, or verify it.
func solicit(link netlink.Link, a netip.Addr) error {
	ask := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.IP(a.AsSlice()), Family: netlink.FAMILY_V4, Flags: netlink.NTF_USE}
	if a.Is6() {
		ask.Family = netlink.FAMILY_V6
	}
	if err := netlink.NeighSet(ask); err != nil {
		return fmt.Errorf("solicit next hop %s: %w", a, err)
	}
	return nil
}

// findLink returns the interface; nil if it does not exist.
func findLink() (netlink.Link, error) {
	link, err := netlink.LinkByName(Interface)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	return link, err
}

// readNeighbours returns the interface and its neighbour table; nil without the interface.
func readNeighbours() (netlink.Link, map[netip.Addr][6]byte, error) {
	link, err := findLink()
	if err != nil || link == nil {
		return nil, nil, err
	}
	known, err := neighbours(link)
	return link, known, err
}

// updateNextHops applies the neighbour table to the next hops, and
// returns those that do not answer. The caller holds the lock.
func (b *Border) updateNextHops(known map[netip.Addr][6]byte, d delta) (silent []netip.Addr) {
	for a := range b.rib.users {
		mac, answers := known[a]
		b.rib.setMAC(pipeline.NextHop{Address: a, MAC: mac, From: b.router.MAC}, answers, d)
		if !answers {
			silent = append(silent, a)
		}
	}
	for a := range b.rib.macs {
		if _, used := b.rib.users[a]; !used {
			b.rib.setMAC(pipeline.NextHop{Address: a}, false, d)
		}
	}
	return silent
}

// onLink returns the next hops that the node reaches through its interface. Others that a router may name would
// never answer, nor would the node itself. The caller holds the lock.
func (b *Border) onLink(hops []netip.Addr) []netip.Addr {
	if b.wanted == nil {
		return nil
	}
	link, link6 := b.wanted.Link, b.wanted.Link6
	own := []netip.Addr{link.Addr(), link6.Addr(), routerOf(b.wanted).LinkLocal()}
	return slices.DeleteFunc(slices.Clone(hops), func(a netip.Addr) bool {
		return slices.Contains(own, a) || !link.Contains(a) && !link6.Contains(a) && !(a.Is6() && a.IsLinkLocalUnicast())
	})
}
