package hostaccess

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// Users choose the subnets of infra networks and of the link to a node's BGP routers, and the host gets a route to
// them. A subnet with addresses of the cluster's machines would cut the host off from the store, so that it would
// not learn when the network is removed; the subnet of one of its links would cut it off from the machines there.

// spared returns the interface without addresses and routes that would take over destinations that the host
// reaches by its other interfaces, and an error that names them. If any address is refused, all addresses and
// routes are, and the interface must not be made. Addresses that the interface already has are not checked.
// machines is sorted.
func (w wantedLink) spared(machines []netip.Addr) (wantedLink, error) {
	names, err := linkNames()
	if err != nil {
		return w, err
	}
	all, err := netlink.AddrList(nil, unix.AF_UNSPEC)
	if err != nil {
		return w, fmt.Errorf("addresses of the host: %w", err)
	}
	o := others{machines: machines, link: w.name, sameWire: w.sameWire, names: names}
	var has []netip.Prefix
	for _, a := range all {
		if p := inet.PrefixOf(a.IPNet); names[a.LinkIndex] == w.name {
			has = append(has, p)
		} else if !slices.Contains(w.sameWire, names[a.LinkIndex]) {
			o.connected = append(o.connected, connected{names[a.LinkIndex], p})
		}
	}
	var problems []error
	for _, p := range w.addresses {
		if slices.Contains(has, p) || p.Addr().IsLinkLocalUnicast() { // link-local addresses are per link
			continue
		}
		if err := o.checkRoute(p.Masked()); err != nil {
			problems = append(problems, fault.New(fault.KindOf(err), "interface %s: address %s: %w", w.name, p, err))
		}
	}
	if len(problems) > 0 {
		w.addresses, w.routes = nil, nil
		return w, errors.Join(problems...)
	}
	routes := w.routes
	w.routes = nil
	for _, r := range routes {
		if err := o.checkRoute(r.to); err != nil {
			problems = append(problems, fault.New(fault.KindOf(err), "interface %s: no route to %s: %w", w.name, r.to, err))
			continue
		}
		w.routes = append(w.routes, r)
	}
	return w, errors.Join(problems...)
}

// others are the destinations that the host reaches by links other than the given one.
type others struct {
	link      string   // the given link
	sameWire  []string // links to the same machines
	names     map[int]string
	connected []connected
	machines  []netip.Addr // of the cluster, sorted
}

// connected is an address of a link with the prefix length of the link's subnet.
type connected struct {
	link string
	at   netip.Prefix
}

// checkRoute returns an error if a route to a network by the link would take over one of these destinations.
// Destinations with a longer prefix are not affected.
func (o others) checkRoute(to netip.Prefix) error {
	for _, c := range o.connected {
		if c.at.Overlaps(to) && c.at.Bits() <= to.Bits() {
			return fault.New(fault.Conflict, "the host is in it by interface %s, with address %s", c.link, c.at)
		}
	}
	first, _ := slices.BinarySearchFunc(o.machines, to.Addr(), netip.Addr.Compare)
	for _, m := range o.machines[first:] {
		if !to.Contains(m) {
			break // machines are sorted: no later one is in it
		}
		now, err := netlink.RouteGetWithOptions(m.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
		if err != nil || len(now) == 0 {
			continue // it is not reached
		}
		link := o.names[now[0].LinkIndex]
		if slices.Contains(o.sameWire, link) {
			continue
		}
		if by := inet.PrefixOf(now[0].Dst); link == o.link || max(by.Bits(), 0) <= to.Bits() {
			return fault.New(fault.Conflict, "%s in it is a machine of the cluster", m)
		}
	}
	return nil
}
