package tunnelroutes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// giver sets the routes of a switch's tunnels.
type giver struct {
	Config
	known   bool           // whether the switch reads routes is known
	gives   bool           // it reads no routes itself
	given   []netip.Prefix // prefixes of the last routes, for when the bridge's row, which lists them, is recreated
	refused []string       // prefixes of those that the switch does not accept
}

// reconcile sets the routes of the switch to those of the link that has the tunnel address. Whether the switch
// reads routes itself is unknown until the address exists: without it, it has none in any case.
func (g *giver) reconcile(ctx context.Context) error {
	if !g.Mine() {
		return nil // the routes are another agent's
	}
	link, there, err := g.Link()
	switch {
	case err != nil:
		return g.errorUnlessReads(err)
	case !there && g.known && g.gives:
		return fault.New(fault.Unavailable, "no link of this node has the tunnel address %s any more (--vtep-ip)", g.VTEP)
	case !there:
		return nil
	}
	table, err := readTable(ctx, g.Control)
	if err != nil {
		return g.errorUnlessReads(err)
	}
	if known, gave := g.known, g.gives; !known || gave == table.reads {
		g.Log.WithField("reads", table.reads).Info("Open vSwitch reads the routes of tunnels itself, or is given them")
	}
	g.known, g.gives = true, !table.reads
	want := map[netip.Prefix]switchRoute{}
	if g.gives {
		if want, err = g.routesBy(link); err != nil {
			return err
		}
	}
	if err := g.setRoutes(ctx, table, want); err != nil {
		return g.errorUnlessReads(err)
	}
	if err := g.checkLink(link); err != nil || !g.gives {
		return err
	}
	return g.checkReach(ctx)
}

// checkLink returns an error where other nodes are to be reached, and the tunnel address is on a link by which the
// userspace datapath sends no tunnel packets: on any other than the local port of one of its bridges it loses them all.
func (g *giver) checkLink(link netlink.Link) error {
	if name := link.Attrs().Name; len(g.Peers()) > 0 && !g.IsLocalPort(name) {
		return fault.New(fault.Unavailable, "the tunnel address %s is on link %s, which is not the local port of a bridge of the userspace datapath: "+
			"no tunnel packet leaves this node; have it on a bridge with the link as a port", g.VTEP, name)
	}
	return nil
}

// errorUnlessReads returns the error of a pass; nil where the switch reads the routes itself.
func (g *giver) errorUnlessReads(err error) error {
	if g.known && !g.gives {
		return nil
	}
	return err
}

// setRoutes replaces the routes that were set. Before each change, the row of the bridge lists all
// routes that may exist then.
func (g *giver) setRoutes(ctx context.Context, table switchTable, want map[netip.Prefix]switchRoute) error {
	noted := append(notedRoutes(g.ExternalIDs()), g.given...) // the row may be another one by now
	g.given = slices.Collect(maps.Keys(want))
	if err := g.Note(ctx, noteKey, prefixes(append(noted, g.given...))); err != nil {
		return err
	}
	missing := maps.Clone(want)
	for _, r := range table.given {
		if now, wanted := want[r.to]; wanted && now.sameWay(r) {
			delete(missing, r.to)
		}
	}
	for _, r := range table.among(noted) {
		if _, wanted := want[r.to]; wanted {
			continue
		}
		if err := deleteSwitchRoute(ctx, g.Control, r); err != nil && !vswitchd.IsRefused(err) { // another program has deleted it
			return err
		}
	}
	if err := g.add(ctx, missing); err != nil {
		return err
	}
	if err := g.refreshTunnelEnds(ctx, want); err != nil {
		return err
	}
	return g.Note(ctx, noteKey, prefixes(g.given))
}

// toldRefusals is how many refused routes an error names.
const toldRefusals = 5

// add adds routes. Those that Open vSwitch refuses are logged once, and retried.
func (g *giver) add(ctx context.Context, routes map[netip.Prefix]switchRoute) error {
	var refused []string
	for to, r := range routes {
		switch err := addSwitchRoute(ctx, g.Control, r); {
		case vswitchd.IsRefused(err):
			refused = append(refused, to.String())
		case err != nil:
			return err
		}
	}
	slices.Sort(refused)
	if len(refused) > 0 && !slices.Equal(refused, g.refused) {
		g.Log.WithField("count", len(refused)).WithField("routes", refused[:min(len(refused), toldRefusals)]).
			Warn("Open vSwitch refuses routes of the underlay, for one without an address of the link in it for example: tunnels cannot go there until it takes them")
	}
	g.refused = refused
	return nil
}

// refreshTunnelEnds makes Open vSwitch accept tunnel packets at the addresses of the link, if it does not: after the deletion of
// any route by the link, or when the link was replaced. Adding any route makes it read the addresses.
func (g *giver) refreshTunnelEnds(ctx context.Context, want map[netip.Prefix]switchRoute) error {
	if len(want) == 0 {
		return nil
	}
	ends, err := tunnelsEndAt(ctx, g.Control, g.VTEP)
	if err != nil || ends {
		return err
	}
	for _, r := range want {
		if err = addSwitchRoute(ctx, g.Control, r); !vswitchd.IsRefused(err) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "Open vSwitch ends no tunnels at %s: %w", g.VTEP, err)
}

// checkReach returns an error for a node that tunnels do not reach, or would reach from another source address
// than this node's, as that node drops such packets. The link may have had other addresses when the route was
// added, so the route is added again first.
func (g *giver) checkReach(ctx context.Context) error {
	table, err := readTable(ctx, g.Control)
	if err != nil {
		return err
	}
	wrong, err := g.unreached(table.ways())
	if wrong != (switchRoute{}) {
		if failed := addSwitchRoute(ctx, g.Control, wrong); failed != nil {
			return failed
		}
	}
	return err
}

// unreached returns the error of the first node that tunnels do not reach by these routes, and the route to it
// if that has another source address than this node's.
func (g *giver) unreached(by ways) (wrong switchRoute, err error) {
	for _, peer := range slices.SortedFunc(slices.Values(g.Peers()), netip.Addr.Compare) {
		switch r, ok := by.to(peer); {
		case !ok:
			return switchRoute{}, fault.New(fault.Unavailable, "Open vSwitch takes no route to node %s: start ovs-vswitchd without --disable-system-route", peer)
		case r.from != g.VTEP:
			return r, fault.New(fault.Unavailable, "the tunnel to node %s starts at %s of link %s, not at the tunnel address %s: "+
				"start ovs-vswitchd without --disable-system-route, or have %s alone on the link", peer, r.from, r.link, g.VTEP, g.VTEP)
		}
	}
	return switchRoute{}, nil
}

// routesBy returns the routes of the system's main table through a link, for packets from the tunnel address.
// Open vSwitch does not support those of several hops, and with a header of their own.
func (g *giver) routesBy(link netlink.Link) (map[netip.Prefix]switchRoute, error) {
	family, all := netlink.FAMILY_V4, netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if g.VTEP.Is6() {
		family, all = netlink.FAMILY_V6, netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	list, err := g.List(link, family)
	if err != nil {
		return nil, fmt.Errorf("routes of link %s: %w", link.Attrs().Name, err)
	}
	routes := map[netip.Prefix]switchRoute{}
	for _, r := range list {
		to := cmp.Or(inet.PrefixOf(r.Dst), all)
		if r.Type != unix.RTN_UNICAST || to.Addr().IsLinkLocalUnicast() || r.Tos != 0 || r.Encap != nil || r.Via != nil {
			continue
		}
		if _, better := routes[to]; !better { // they come in the order of their metrics
			routes[to] = switchRoute{to: to, link: link.Attrs().Name, via: inet.AddrOf(r.Gw)}
		}
	}
	return routes, nil
}
