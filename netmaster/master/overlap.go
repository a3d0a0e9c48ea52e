package master

import (
	"net/netip"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// OnVLANs stands for the tenants of all networks of encapsulation vlan.
const OnVLANs = ""

// OverlapIPv4 finds a network of a tenant that overlaps a subnet; nil if there is none. OnVLANs is
// for forwarding mode routing.
//
// Networks of a tenant never overlap, nor do networks on VLANs that are routed, so of those that end at or after the
// subnet's first address the one that ends first also begins first: if that one begins beyond the subnet, all others
// do.
func OverlapIPv4(r ledger.Reader, tenant string, subnet resources.Subnet) (*contivmodel.Network, error) {
	return firstEnding(r, ipv4Term+tenant+"/", subnet.First, func(n *contivmodel.Network) bool {
		theirs, err := resources.ParseSubnet(n.Subnet)
		return err == nil && subnet.Overlaps(theirs)
	})
}

// OverlapIPv6 is OverlapIPv4 for IPv6.
func OverlapIPv6(r ledger.Reader, tenant string, subnet netip.Prefix) (*contivmodel.Network, error) {
	return firstEnding(r, ipv6Term+tenant+"/", subnet.Addr(), func(n *contivmodel.Network) bool {
		theirs, err := resources.ParseIPv6Subnet(n.Ipv6Subnet)
		return err == nil && subnet.Overlaps(theirs)
	})
}

// firstEnding returns the first network that ends at or after an address, if it overlaps.
func firstEnding(r ledger.Reader, term string, from netip.Addr, overlaps func(*contivmodel.Network) bool) (found *contivmodel.Network, err error) {
	r.Search(term, term+sortable(from), func(_, key string) bool {
		found, err = Get[contivmodel.Network](r, key[len(mastercfg.ModelKey("network", "")):], errGone)
		return false
	})
	if err != nil || found == nil || !overlaps(found) {
		return nil, err
	}
	return found, nil
}
