// Package kubeservice chooses who serves a connection to a service of Kubernetes: which of
// the backends of a port, on this node, for which clients. It is pure; Kubernetes' rule is that
// of its own proxy.
//
//	cluster set    the ready ones that are meant for this node or its zone; if none is
//	               ready, those that are about to end and still serve
//	local set      the same of this node only, whomever they are meant for
//
// Where no backend serves at all, connections are refused. Where none of this node does, but some elsewhere,
// the local set is silent.
//
// Clients in the cluster have the cluster set; at a cluster address with the internal policy Local
// they have the local set. Clients from outside have the cluster set, with the external policy Local the local one.
package kubeservice

import (
	"bytes"
	"crypto/sha256"
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

// usable returns the ready backends or, if there is none, those that terminate and still serve.
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

// near returns the ready backends that are meant for clients of a place. Hints count if all backends have some and there is one
// for this place.
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

// AtMost leaves n of each set.
func (s Sets) AtMost(n int, node string, here func(netip.AddrPort) bool) Sets {
	return Sets{Cluster: s.Cluster.AtMost(n, node, here), Local: s.Local.AtMost(n, node, here)}
}

// AtMost leaves n of the chosen ones, those that serve before those that drain. Which ones depends on the
// node, so that all together the nodes use all of them, and one that comes or goes changes at most one other. Those that are here are left
// before all others: who comes in by another node may have them, and has their answers sent back by this one only if it knows them.
func (c Chosen) AtMost(n int, node string, here func(netip.AddrPort) bool) Chosen {
	serve, drain := count(c.Serving, here), count(c.Draining, here)
	kept := min(drain, max(0, n-max(1, serve))) // of those that drain here, but somebody serves
	c.Serving = some(c.Serving, n-kept, node, here)
	c.Draining = some(c.Draining, n-len(c.Serving), node, here)
	return c
}

func count(all []netip.AddrPort, here func(netip.AddrPort) bool) (n int) {
	for _, a := range all {
		if here(a) {
			n++
		}
	}
	return n
}

// some returns n of all addresses, sorted: first those that are here, then those with the lowest hashes.
func some(all []netip.AddrPort, n int, node string, here func(netip.AddrPort) bool) []netip.AddrPort {
	if len(all) <= n {
		return all
	}
	ranks := make(map[netip.AddrPort][]byte, len(all))
	for _, a := range all {
		hash := sha256.Sum256([]byte(node + " " + a.String()))
		rank := append([]byte{1}, hash[:]...)
		if here(a) {
			rank[0] = 0
		}
		ranks[a] = rank
	}
	chosen := slices.SortedFunc(slices.Values(all), func(a, b netip.AddrPort) int { return bytes.Compare(ranks[a], ranks[b]) })[:n]
	slices.SortFunc(chosen, netip.AddrPort.Compare)
	return chosen
}
