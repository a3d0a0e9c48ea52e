package hostaddr

import (
	"net"
	"net/netip"
	"slices"
)

// Most is how many addresses of a machine others are told. A machine has more where
// each service of its cluster has an address on it, which is no way to the machine's own.
const Most = 64

// All are the addresses by which others may reach this host, sorted, and at most [Most]:
// those of loopback and of one link only are not among them. A host that does not say has none.
func All() (texts []string) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var found []netip.Addr
	for _, addr := range addrs {
		if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr().IsGlobalUnicast() {
			found = append(found, p.Addr())
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)
	for _, a := range found[:min(len(found), Most)] {
		texts = append(texts, a.String())
	}
	return texts
}
