// Package kubeservice chooses the backends that serve connections to a port of a Kubernetes service: on this node,
// by where the clients are. It is pure; the rules are those of Kubernetes' own proxy.
//
//	cluster set    the ready backends that are meant for this node or its zone; if none is
//	               ready, those that are terminating and still serve
//	local set      the same of this node only, without regard to hints
//
// If no backend serves at all, connections are refused. If none of this node does, but some of other nodes do,
// packets for the local set are dropped.
//
// Clients in the cluster use the cluster set; at a cluster address with the internal policy Local they use the
// local set. External clients use the cluster set; with the external policy Local, the local set.
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
	Node        string // empty: no node of the cluster
	Ready       bool
	Serving     bool
	Terminating bool
	ForNodes    []string // hints: nodes, and zones, of the clients it is meant for
	ForZones    []string
}

// Place is the location of clients.
type Place struct {
	Node string
	Zone string // empty: unknown
}

// Chosen are the backends for some clients.
type Chosen struct {
	Serving  []netip.AddrPort // accept new connections, ascending
	Draining []netip.AddrPort // keep existing connections only, ascending
	Silent   bool             // no backend serves here, but one does on another node: packets are dropped, not refused
}

// Sets are the sets of one port and one IP family.
type Sets struct{ Cluster, Local Chosen }

// Choose returns both sets. With udp, connections are bound to serving backends: Kubernetes wants connections to
// others flushed, while TCP connections last until they are closed.
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

// near returns the ready backends that are meant for clients of a place. Hints apply if all backends have some and
// one is for this place.
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

// chosen returns the serving backends, and those of the others that may keep connections.
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

// AtMost limits each set to n backends.
func (s Sets) AtMost(n int, node string, here func(netip.AddrPort) bool) Sets {
	return Sets{Cluster: s.Cluster.AtMost(n, node, here), Local: s.Local.AtMost(n, node, here)}
}

// AtMost limits the backends to n, keeping serving before draining ones. The choice depends on the node, so that
// all nodes together use all backends, and a change of one backend changes at most one other. Backends on this
// node are kept first: clients that enter by other nodes may use them, and this node sends their answers back only
// if it has them.
func (c Chosen) AtMost(n int, node string, here func(netip.AddrPort) bool) Chosen {
	serve, drain := count(c.Serving, here), count(c.Draining, here)
	kept := min(drain, max(0, n-max(1, serve))) // draining backends on this node, leaving room for a serving one
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

// some returns n of all addresses, sorted: those on this node first, then those with the lowest hashes.
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
