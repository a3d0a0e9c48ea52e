package resources

import (
	"maps"
	"net/netip"
	"slices"
)

// addressSet is a set of addresses in use.
type addressSet map[netip.Addr]bool

func (s addressSet) NextFree(from netip.Addr) (netip.Addr, bool) {
	for ; from.IsValid(); from = from.Next() {
		if !s[from] {
			return from, true
		}
	}
	return from, false
}

func (s addressSet) NextTaken(from netip.Addr) (netip.Addr, bool) {
	for _, addr := range slices.SortedFunc(maps.Keys(s), netip.Addr.Compare) {
		if !addr.Less(from) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// tagSet is a set of tags in use.
type tagSet map[uint]bool

func (s tagSet) NextFree(from uint) (uint, bool) {
	for s[from] {
		from++
	}
	return from, true
}

func (s tagSet) NextTaken(from uint) (uint, bool) {
	for _, tag := range slices.Sorted(maps.Keys(s)) {
		if tag >= from {
			return tag, true
		}
	}
	return 0, false
}

// rangeList are ranges of groups, in order.
type rangeList []string

func (l rangeList) Next(from netip.Addr) (first, last netip.Addr, ok bool) {
	for _, text := range l {
		if first, last, err := ParsePool(text); err == nil && !last.Less(from) {
			return first, last, true
		}
	}
	return first, last, false
}
