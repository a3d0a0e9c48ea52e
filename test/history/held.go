package history

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
)

// heldIn finds the addresses of a network that are marked and have neither an
// endpoint nor a service.
func heldIn(w *World, n *contivmodel.Network) map[netip.Addr]bool {
	d := derivation{world: w}
	addresses, _ := d.population(n)
	s := parseSubnet(n.Subnet, n.Gateway)
	rec := w.record(networkPrefix + n.NetworkName + "." + n.TenantName)
	held := map[netip.Addr]bool{}
	groups := d.groupsOf(n)
	note := func(used bits, ours func(netip.Addr) bool) {
		for offset, taken := range used {
			if a := s.at(offset); taken && s.usable(a) && ours(a) && addresses[a] == "" {
				held[a] = true
			}
		}
	}
	note(parseBits(rec["ipAllocMap"]), func(a netip.Addr) bool {
		return !slices.ContainsFunc(groups, func(g *contivmodel.EndpointGroup) bool { return poolHas(g.IPPool, a) })
	})
	for _, g := range groups {
		if g.IPPool != "" {
			used := parseBits(w.record(groupPrefix + g.GroupName + ":" + g.TenantName)["epgIpAllocMap"])
			note(used, func(a netip.Addr) bool { return poolHas(g.IPPool, a) })
		}
	}
	if prefix, err := netip.ParsePrefix(n.Ipv6Subnet); err == nil {
		base := prefix.Masked().Addr().As16()
		gateway, _ := netip.ParseAddr(n.Ipv6Gateway)
		taken, _ := rec["ipv6AllocMap"].(document)
		for host := range taken {
			a, err := netip.ParseAddr(host)
			if err != nil {
				continue // Compare reports it
			}
			raw := a.As16()
			for i := range raw {
				raw[i] |= base[i]
			}
			if a = netip.AddrFrom16(raw); addresses[a] == "" && a != gateway {
				held[a] = true
			}
		}
	}
	return held
}

// holding follows which addresses are held while revisions pass.
type holding struct {
	evidence *Evidence
	held     Held
	found    []string
}

// update looks at the networks that a revision touched. An address becomes
// held by an allocation and by nothing else: one that an endpoint leaves
// behind is lost.
func (h *holding) update(w *World, touched map[string]bool, revision int64) {
	for _, n := range all[contivmodel.Network](w) {
		id := n.NetworkName + "." + n.TenantName
		if !touched[id] {
			continue
		}
		before, now := h.held[id], heldIn(w, n)
		for _, a := range slices.SortedFunc(maps.Keys(now), netip.Addr.Compare) {
			if !before[a] && !h.evidence.allocated(id, a, revision) {
				h.found = append(h.found, fmt.Sprintf("revision %d: address %s of network %s is taken, and nobody has it", revision, a, id))
			}
		}
		h.held[id] = now
		delete(touched, id)
	}
	for id := range touched {
		delete(h.held, id) // the network is gone
	}
}
