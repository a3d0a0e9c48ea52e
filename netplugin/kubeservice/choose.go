// Package kubeservice chooses who serves a connection to a service of Kubernetes: which of
// the backends of a port, on this node, for which clients. It is pure; Kubernetes' rule is that
// of its own proxy.
//
//	                  ready ones, those meant for this node or zone
//	cluster set    =  none ready: those that end and still serve
//	local set      =  the same of this node only, whomever they are meant for
//	nobody at all  =  refused; nobody here, but elsewhere: silence
//
// Clients in the cluster have the cluster set, but at a cluster address with the internal
// policy Local. Clients from outside have the local set with the external policy Local.
package kubeservice

import (
	"net/netip"
	"slices"
)

// Backend is an address behind one port of a service.
type Backend struct {
	Address     netip.AddrPort
	Node        string // empty: none of ours
	Ready       bool
	Serving     bool
	Terminating bool
	ForNodes    []string // hints: nodes, and zones, whose clients it is meant for
	ForZones    []string
}

// Place is where clients are.
type Place struct {
	Node string
	Zone string // empty: not known
}

// Chosen are backends for some clients.
type Chosen struct {
	Serving  []netip.AddrPort // get new connections, ascending
	Draining []netip.AddrPort // keep those that they have, ascending
	Silent   bool             // nobody serves here, but somebody does elsewhere: what comes is dropped, not refused
}

// Sets are those of one port and one version of IP.
type Sets struct{ Cluster, Local Chosen }

// Choose finds both sets. udp tells that connections are bound to backends that serve: Kubernetes
// wants what is left of others forgotten, while those of TCP live as long as their ends do.
func Choose(all []Backend, here Place, udp bool) Sets {
	local := slices.DeleteFunc(slices.Clone(all), func(b Backend) bool { return b.Node == "" || b.Node != here.Node })
	anybody := len(usable(all)) > 0
	sets := Sets{
		Cluster: chosen(near(usable(all), here), all, udp),
		Local:   chosen(usable(local), all, udp),
	}
	sets.Local.Silent = len(sets.Local.Serving) == 0 && anybody
	return sets
}

// usable are those that are ready, or if there is none those that end and still serve.
func usable(all []Backend) (some []Backend) {
	for _, b := range all {
		if b.Ready {
			some = append(some, b)
		}
	}
	if len(some) > 0 {
		return some
	}
	for _, b := range all {
		if b.Serving && b.Terminating {
			some = append(some, b)
		}
	}
	return some
}

// near are those of ready backends that are meant for clients of a place. Hints
// count if all have some and they leave this place somebody.
func near(ready []Backend, here Place) []Backend {
	for _, hint := range []struct {
		place string
		of    func(Backend) []string
	}{
		{here.Node, func(b Backend) []string { return b.ForNodes }},
		{here.Zone, func(b Backend) []string { return b.ForZones }},
	} {
		if hint.place == "" {
			continue
		}
		var some []Backend
		all := true
		for _, b := range ready {
			all = all && b.Ready && len(hint.of(b)) > 0
			if slices.Contains(hint.of(b), hint.place) {
				some = append(some, b)
			}
		}
		if all && len(some) > 0 {
			return some
		}
	}
	return ready
}

// chosen tells those of all that are not among the serving ones and may keep connections.
func chosen(serving, all []Backend, udp bool) (c Chosen) {
	for _, b := range serving {
		c.Serving = append(c.Serving, b.Address)
	}
	slices.SortFunc(c.Serving, netip.AddrPort.Compare)
	c.Serving = slices.Compact(c.Serving)
	for _, b := range all {
		if _, serves := slices.BinarySearchFunc(c.Serving, b.Address, netip.AddrPort.Compare); !serves && (!udp || b.Serving) {
			c.Draining = append(c.Draining, b.Address)
		}
	}
	slices.SortFunc(c.Draining, netip.AddrPort.Compare)
	c.Draining = slices.Compact(c.Draining)
	return c
}
