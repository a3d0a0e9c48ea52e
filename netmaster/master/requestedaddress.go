package master

import (
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Refuses returns the error with which a new endpoint of a network and a group (empty: none) would be refused
// an address that it requests; nil if it would get it. inUse: the address is taken or reserved; otherwise it
// cannot be assigned there at all.
func Refuses(r ledger.Reader, networkID, groupID string, addr netip.Addr) (why error, inUse bool, err error) {
	s, err := viewSpace(r, networkID, groupID)
	if err != nil {
		return nil, false, err
	}
	toBeHad := s.checkIPv4
	if addr.Is6() {
		toBeHad = s.checkIPv6
	}
	inUse, err = toBeHad(addr)
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.Conflict) {
		return err, inUse, nil
	}
	return nil, false, err
}

// askedTerms index pods of Kubernetes by the addresses that they request. These count as taken, so that they
// are not assigned to endpoints without a request before the pods start.
func askedTerms(p *struct {
	Tenant, Network string
	IPv4, IPv6      netip.Addr
}) (terms []string) {
	if p.Tenant == "" {
		return nil // the pod is refused
	}
	id := mastercfg.NetworkID(p.Tenant, p.Network)
	for _, addr := range []netip.Addr{p.IPv4, p.IPv6} {
		if addr.IsValid() {
			terms = append(terms, askedTerm+id+"/"+addr.String(), addressTerm(id, addr))
		}
	}
	return terms
}

// PodsThatAsk returns the keys of the records of pods of Kubernetes that request an address of a network.
func PodsThatAsk(r ledger.Reader, networkID string, addr netip.Addr) (keys []string) {
	found(r, askedTerm+networkID+"/"+addr.String(), func(key string) bool {
		keys = append(keys, key)
		return true
	})
	return keys
}
