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

// Whoever makes a network says what its subnet is, and whoever makes a node a router what it has among the others; the
// host would have a route to it. One that led to the machines of the cluster would cut the host off from the store, so
// that it never learned that the network is gone; one that led to what is on its links, from the others there.

// spared is the interface without what would take from the host what it reaches by its other interfaces; the error names that. Without an
// address there is no interface.
// An address that the interface has already stays. The cluster's machines are sorted.
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
		if slices.Contains(has, p) || p.Addr().IsLinkLocalUnicast() { // what is local to a link is reached by naming that
			continue
		}
		if err := o.lose(p.Masked()); err != nil {
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
		if err := o.lose(r.to); err != nil {
			problems = append(problems, fault.New(fault.KindOf(err), "interface %s: no route to %s: %w", w.name, r.to, err))
			continue
		}
		w.routes = append(w.routes, r)
	}
	return w, errors.Join(problems...)
}

// others are what the host reaches, but for by one of its links.
type others struct {
	link      string   // that one
	sameWire  []string // links that lead to the same machines as that one
	names     map[int]string
	connected []connected
	machines  []netip.Addr // of the cluster, sorted
}

// connected is an address of a link with the length of what is on the link.
type connected struct {
	link string
	at   netip.Prefix
}

// lose says what the host would no longer reach as it does if a network was reached by the link. What has a longer prefix goes on.
func (o others) lose(to netip.Prefix) error {
	for _, c := range o.connected {
		if c.at.Overlaps(to) && c.at.Bits() <= to.Bits() {
			return fault.New(fault.Conflict, "the host is in it by interface %s, with address %s", c.link, c.at)
		}
	}
	first, _ := slices.BinarySearchFunc(o.machines, to.Addr(), netip.Addr.Compare)
	for _, m := range o.machines[first:] {
		if !to.Contains(m) {
			break // nor does it any later one
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
