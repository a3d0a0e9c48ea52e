package resources

import "net/netip"

// Used finds the numbers of a set that are in use. Both methods return the first number from a given one on,
// inclusive; ok is false if there is none.
type Used[N any] interface {
	NextFree(from N) (free N, ok bool)
	NextTaken(from N) (taken N, ok bool)
}

// Ranges are parts of a network that groups have reserved. They do not overlap.
type Ranges interface {
	// Next returns the lowest range that ends at an address or after it.
	Next(from netip.Addr) (first, last netip.Addr, ok bool)
}

// noRanges is for pools without reservations.
type noRanges struct{}

func (noRanges) Next(netip.Addr) (first, last netip.Addr, ok bool) { return first, last, false }

// inUse visits the numbers in use, in order.
func inUse(used Used[uint], visit func(n uint)) {
	for n, ok := used.NextTaken(0); ok; n, ok = used.NextTaken(n + 1) {
		visit(n)
	}
}

// count returns how many numbers are in use.
func count(used Used[uint]) (n int) {
	inUse(used, func(uint) { n++ })
	return n
}

// list formats the numbers in use as "1-3, 10".
func list(used Used[uint], name func(uint) string) string {
	const end = 1 << 16
	next := func(find func(uint) (uint, bool)) func(uint) uint {
		return func(from uint) uint {
			if n, ok := find(from); ok && from < end {
				return n
			}
			return end
		}
	}
	return ranges(0, end-1, next(used.NextTaken), next(used.NextFree), name)
}
