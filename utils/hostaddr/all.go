package hostaddr

import (
	"cmp"
	"net/netip"
	"slices"
)

// Most limits the announced addresses of a machine. A machine has more if each service of its cluster has an
// address on it, by which the machine itself is not reached.
const Most = 64

// All returns the addresses by which other hosts may reach this host, sorted, at most [Most]: loopback and
// link-local ones are excluded. It returns none if they cannot be read.
func All() []string {
	all, err := configured()
	if err != nil {
		return nil
	}
	return told(all)
}

// told selects the announced addresses: if there are too many, those of links to other hosts are preferred.
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

// order sorts addresses of inner links last.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
