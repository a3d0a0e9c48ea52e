package hostaddr

import (
	"cmp"
	"net/netip"
	"slices"
)

// Most is how many addresses of a machine others are told. A machine has more where
// each service of its cluster has an address on it, which is no way to the machine's own.
const Most = 64

// All are the addresses by which others may reach this host, sorted, and at most [Most]:
// those of loopback and of one link only are not among them. A host that does not say has none.
func All() []string {
	all, err := configured()
	if err != nil {
		return nil
	}
	return told(all)
}

// told are those of which others are told: if there are too many, rather those of links by which other hosts are reached.
func told(all []located) (texts []string) {
	found := slices.DeleteFunc(all, func(l located) bool { return !l.addr.IsGlobalUnicast() })
	slices.SortFunc(found, func(a, b located) int { return cmp.Or(order(a.inner(), b.inner()), a.addr.Compare(b.addr)) })
	var addrs []netip.Addr
	for _, l := range found {
		if len(addrs) < Most && !slices.Contains(addrs, l.addr) {
			addrs = append(addrs, l.addr)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return texts
}

// order has what is not inner come first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
