package gate

import (
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// ends are the tunnel addresses with which nodes have joined. Nodes ask for dozens of addresses in one request,
// so the cost of a lookup must not depend on the number of nodes.
type ends map[netip.Addr][]tunnelEnd // in the order of joining

// tunnelEnd is the tunnel address of one node.
type tunnelEnd struct {
	host   string
	joined time.Time
}

// add adds the addresses of a node that has none here.
func (e ends) add(host string, joined mastercfg.Joined) {
	for _, text := range joined.VTEPs {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue // it matches no address
		}
		all := e[addr.Unmap()]
		if slices.ContainsFunc(all, func(t tunnelEnd) bool { return t.host == host }) {
			continue
		}
		at, _ := slices.BinarySearchFunc(all, joined.Joined, func(t tunnelEnd, when time.Time) int { return t.joined.Compare(when) })
		e[addr.Unmap()] = slices.Insert(all, at, tunnelEnd{host, joined.Joined})
	}
}

// remove removes the addresses of a node; joined is the record that was added.
func (e ends) remove(host string, joined mastercfg.Joined) {
	for _, text := range joined.VTEPs {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		addr = addr.Unmap()
		if e[addr] = slices.DeleteFunc(e[addr], func(t tunnelEnd) bool { return t.host == host }); len(e[addr]) == 0 {
			delete(e, addr)
		}
	}
}

// first returns the node that was the first to join with a tunnel
// address, without considering one node; empty: no other node has it.
func (e ends) first(addr netip.Addr, but string) string {
	for _, t := range e[addr.Unmap()] {
		if t.host != but {
			return t.host
		}
	}
	return ""
}
