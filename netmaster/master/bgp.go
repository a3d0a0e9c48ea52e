package master

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/inet"
)

// BgpRecord returns the record of a BGP speaker.
func BgpRecord(b *contivmodel.Bgp) mastercfg.CfgBgpState {
	return mastercfg.CfgBgpState{
		ID: b.Hostname, Hostname: b.Hostname, RouterIP: b.Routerip, RouterIPv6: b.Ipv6Routerip,
		As: b.As, NeighborAs: b.NeighborAs, Neighbor: b.Neighbor, Neighbors: b.Neighbors, Password: b.Password, HoldTime: b.HoldTime,
	}
}

// DeriveBgp writes the record of a BGP speaker.
func DeriveBgp(tx *ledger.Tx, b *contivmodel.Bgp) error {
	return ledger.Write(tx, mastercfg.BgpPrefix+b.Hostname, BgpRecord(b))
}

// RemoveBgp deletes the record of a BGP speaker.
func RemoveBgp(tx *ledger.Tx, host string) { tx.Delete(mastercfg.BgpPrefix + host) }

// routerTerms index BGP speakers by their addresses in the subnet of the external routers.
func routerTerms(b *contivmodel.Bgp) (terms []string) {
	for _, text := range []string{b.Routerip, b.Ipv6Routerip} {
		if link, err := netip.ParsePrefix(text); err == nil { // else empty
			terms = append(terms, routerTerm+link.Addr().String())
		}
	}
	return terms
}

// OtherRouter returns another host whose BGP speaker has an address in the subnet of the external routers;
// empty if there is none. If several have it, in a store of an earlier version, it is the first.
func OtherRouter(r ledger.Reader, a netip.Addr, than string) string {
	hosts := slices.DeleteFunc(keysOf(r, routerTerm+a.String(), "Bgp"), func(host string) bool { return host == than })
	if len(hosts) == 0 {
		return ""
	}
	return slices.Min(hosts)
}

// RouterIn finds a BGP speaker whose address is in the subnets of a network to be created, and that
// address; "" if there is none.
func RouterIn(r ledger.Reader, n *contivmodel.Network) (host string, at netip.Addr) {
	searchWithin(r, routerTerm, n, func(a netip.Addr, key string) bool {
		host, at = strings.TrimPrefix(key, mastercfg.ModelKey("Bgp", "")), a
		return false
	})
	return host, at
}

// NodeIn is RouterIn for nodes whose agent or tunnel end is reached at such an address.
func NodeIn(r ledger.Reader, n *contivmodel.Network) (host string, at netip.Addr) {
	searchWithin(r, reachedTerm, n, func(a netip.Addr, _ string) bool {
		host, at = NodeAt(r, a), a
		return host == ""
	})
	return host, at
}

// searchWithin calls yield for the keys that are indexed under a prefix and an address in the subnets of a network,
// until it returns false.
func searchWithin(r ledger.Reader, prefix string, n *contivmodel.Network, yield func(a netip.Addr, key string) bool) {
	four, err4 := resources.ParseSubnet(n.Subnet)
	six, err6 := resources.ParseIPv6Subnet(n.Ipv6Subnet)
	r.Search(prefix, "", func(term, key string) bool {
		a, err := netip.ParseAddr(strings.TrimPrefix(term, prefix))
		if err == nil && (a.Is4() && err4 == nil && four.Overlaps(only(a)) || a.Is6() && err6 == nil && six.Contains(a)) {
			return yield(a, key)
		}
		return true
	})
}

// NetworkOutside returns the routed network of encapsulation vlan that contains an address; nil if none does.
func NetworkOutside(r ledger.Reader, a netip.Addr) (*contivmodel.Network, error) {
	if a.Is4() {
		return OverlapIPv4(r, OnVLANs, only(a))
	}
	return OverlapIPv6(r, OnVLANs, inet.Host(a))
}
