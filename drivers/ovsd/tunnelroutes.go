package ovsd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/rtwatch"
)

// The userspace datapath finds the way to other nodes in a table of ovs-vswitchd, which reads the routes of the system anew
// whenever any link or route of the node changes. Until it has read them it neither has a way nor knows what ends tunnels, and
// what is looked at in that moment is dropped: pods that come and go would cost others packets. With --disable-system-route
// it reads none. The routes of the link that has the tunnel address are then given to it here.

// routesPause is how long changes of routes are collected.
const routesPause = 100 * time.Millisecond

// tunnelRoutes is what is known of the switch's routes.
type tunnelRoutes struct {
	due notify.Signal

	mu      sync.Mutex
	known   bool // the switch has been asked
	given   bool // it reads no routes itself
	problem error
}

func newTunnelRoutes() *tunnelRoutes { return &tunnelRoutes{due: notify.New()} }

// learn keeps what was found, and tells whether that is news.
func (t *tunnelRoutes) learn(known, given bool, problem error) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news = known != t.known || given != t.given || fmt.Sprint(problem) != fmt.Sprint(t.problem)
	t.known, t.given, t.problem = known, given, problem
	return news
}

// failure says why tunnels have no routes.
func (t *tunnelRoutes) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.problem
}

// trunk is the port that the bridge should have. Open vSwitch looks for the tunnel address among routes of the system, so where it reads
// none it sends from the address of the link instead.
func (d *Driver) trunk() trunk {
	want := d.config.trunk()
	d.tunnelRoutes.mu.Lock()
	known, given := d.tunnelRoutes.known, d.tunnelRoutes.given
	d.tunnelRoutes.mu.Unlock()
	if !known { // it stays as an agent before has made it
		have, there := d.db.trunk()
		given = there && have.link.Options["local_ip"] == ""
	}
	if given {
		delete(want.options, "local_ip")
	}
	return want
}

// keepTunnelRoutes keeps the routes of the switch, where it reads none itself.
func (d *Driver) keepTunnelRoutes(ctx context.Context) error {
	if len(d.config.Uplinks) > 0 || d.datapathType() != DatapathNetdev {
		d.tunnelRoutes.learn(true, false, nil)
		d.keeperDue.Send()
		<-ctx.Done()
		return ctx.Err()
	}
	var watches sync.WaitGroup
	defer watches.Wait()
	watches.Go(func() { d.watchAddresses(ctx) })
	watches.Go(func() { d.watchRoutes(ctx) })
	giver := routeGiver{Driver: d}
	pause := retry.NewPacer(firstRedial, d.config.AuditInterval)
	for {
		err := giver.look(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.tunnelRoutes.learn(giver.link != 0, giver.gives, err) {
			d.keeperDue.Send()
		}
		next := d.config.AuditInterval
		if err != nil || len(giver.refused) > 0 {
			next = pause.Next()
		} else {
			pause.Reset()
		}
		select {
		case <-d.tunnelRoutes.due:
		case <-time.After(next):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *Driver) watchAddresses(ctx context.Context) {
	_ = rtwatch.Watch(ctx, d.log, d.links.at(), d.tunnelRoutes.due.Send, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR) // ends with ctx
}

// watchRoutes has routes looked at a while after they have changed: a router changes thousands at once.
func (d *Driver) watchRoutes(ctx context.Context) {
	later := func() {
		retry.Pause(ctx, routesPause)
		d.tunnelRoutes.due.Send()
	}
	_ = rtwatch.Watch(ctx, d.log, d.links.at(), later, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE) // ends with ctx
}

// routeGiver gives the switch its routes.
type routeGiver struct {
	*Driver
	gives   bool
	link    int      // index of the link of the routes that were given last; 0: the switch was not asked yet
	refused []string // routes of that link
}

// look makes the switch's routes those of the link with the tunnel address. Whether the switch reads routes cannot be known
// before there is an address, as it has none then in any case.
func (g *routeGiver) look(ctx context.Context) error {
	link, there, err := g.links.withAddress(g.config.VTEP)
	if err != nil || !there {
		return err
	}
	table, err := g.config.switchRoutes(ctx)
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	if g.gives = !table.reads; !g.gives {
		g.link, g.refused = index, nil
		return nil
	}
	want, err := g.links.routesBy(link, g.config.VTEP)
	if err != nil {
		return err
	}
	if err := g.give(ctx, table, want, g.link != index); err != nil {
		return err
	}
	g.link = index
	if table, err = g.config.switchRoutes(ctx); err != nil {
		return err
	}
	return g.reaches(table)
}

// give makes the routes that were given other ones. The bridge's row names all that may be there at any moment. All are added
// where tunnels may have lost the addresses at which they end: when the link is another one, and when a route of it is deleted.
func (g *routeGiver) give(ctx context.Context, table switchTable, want map[netip.Prefix]switchRoute, all bool) error {
	bridge, _ := g.db.ourBridge()
	noted := givenRoutes(bridge.ExternalIDs)
	if err := g.note(ctx, idRoutes, prefixes(slices.AppendSeq(noted, maps.Keys(want)))); err != nil {
		return err
	}
	missing := maps.Clone(want)
	for _, r := range table.given {
		if want[r.to] == r {
			delete(missing, r.to)
		}
	}
	for _, r := range table.among(noted) {
		if _, wanted := want[r.to]; wanted {
			continue
		}
		if err := g.config.deleteSwitchRoute(ctx, r); err != nil {
			return err
		}
		all = true
	}
	if all {
		missing = want
	}
	if err := g.add(ctx, missing); err != nil {
		return err
	}
	return g.note(ctx, idRoutes, prefixes(slices.Collect(maps.Keys(want))))
}

// add adds routes. Those that Open vSwitch refuses are told once, and tried again.
func (g *routeGiver) add(ctx context.Context, routes map[netip.Prefix]switchRoute) error {
	var refused []string
	for to, r := range routes {
		err := g.config.addSwitchRoute(ctx, r)
		switch {
		case isRefused(err):
			refused = append(refused, to.String())
		case err != nil:
			return err
		}
	}
	if slices.Sort(refused); len(refused) > 0 && !slices.Equal(refused, g.refused) {
		g.log.WithField("routes", refused).Warn("Open vSwitch refuses routes of the underlay, for one without an address of the link in it for example: tunnels cannot go there until it takes them")
	}
	g.refused = refused
	return nil
}

// reaches finds a node that tunnels do not reach, or reach from another address than this node's: the other one drops what
// comes from there.
func (g *routeGiver) reaches(table switchTable) error {
	for _, peer := range g.peers.all() {
		switch r, ok := table.lookup(peer); {
		case !ok:
			return fault.New(fault.Unavailable, "Open vSwitch takes no route to node %s: start ovs-vswitchd without --disable-system-route", peer)
		case r.from != g.config.VTEP:
			return fault.New(fault.Unavailable, "the tunnel to node %s starts at %s of link %s, not at the tunnel address %s: "+
				"start ovs-vswitchd without --disable-system-route, or have %s alone on the link", peer, r.from, r.link, g.config.VTEP, g.config.VTEP)
		}
	}
	return nil
}

// routesBy are the routes of the system by a link, for packets from an address.
func (l *links) routesBy(link netlink.Link, from netip.Addr) (map[netip.Prefix]switchRoute, error) {
	family, all := netlink.FAMILY_V4, netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if from.Is6() {
		family, all = netlink.FAMILY_V6, netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	list, err := l.handle.RouteList(link, family)
	if err != nil {
		return nil, fmt.Errorf("routes of link %s: %w", link.Attrs().Name, err)
	}
	routes := map[netip.Prefix]switchRoute{}
	for _, r := range list {
		to := cmp.Or(inet.PrefixOf(r.Dst), all)
		if r.Type != unix.RTN_UNICAST || to.Addr().IsLinkLocalUnicast() {
			continue
		}
		if _, better := routes[to]; !better { // they come in the order of their metrics
			routes[to] = switchRoute{to: to, link: link.Attrs().Name, via: inet.AddrOf(r.Gw), from: from}
		}
	}
	return routes, nil
}
