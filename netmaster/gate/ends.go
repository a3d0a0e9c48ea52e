package gate

import (
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// ends are the tunnel ends that nodes joined with, by address. Nodes ask about dozens of addresses in one request, so a look
// must cost the same however many nodes there are.
type ends map[netip.Addr][]tunnelEnd // who joined first is first

// tunnelEnd is that of one node.
type tunnelEnd struct {
	host   string
	joined time.Time
}

// add notes those of a node, of which none are there.
func (e ends) add(host string, joined mastercfg.Joined) {
	for _, text := range joined.VTEPs {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue // nothing is at such an address
		}
		all := e[addr.Unmap()]
		if slices.ContainsFunc(all, func(t tunnelEnd) bool { return t.host == host }) {
			continue
		}
		at, _ := slices.BinarySearchFunc(all, joined.Joined, func(t tunnelEnd, when time.Time) int { return t.joined.Compare(when) })
		e[addr.Unmap()] = slices.Insert(all, at, tunnelEnd{host, joined.Joined})
	}
}

// remove forgets those of a node, which had joined so.
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

// first is the node that joined, of those other than one, with a tunnel end first; empty: no other one has it.
func (e ends) first(addr netip.Addr, but string) string {
	for _, t := range e[addr.Unmap()] {
		if t.host != but {
			return t.host
		}
	}
	return ""
}
