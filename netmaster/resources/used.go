package resources

import "net/netip"

// Used tells which numbers of a set somebody has. Both questions are about the
// numbers from one on, that one included; ok is false if there is none.
type Used[N any] interface {
	NextFree(from N) (free N, ok bool)
	NextTaken(from N) (taken N, ok bool)
}

// Ranges are parts of a network that groups have reserved. They do not overlap.
type Ranges interface {
	// Next is the lowest range that ends at an address or after it.
	Next(from netip.Addr) (first, last netip.Addr, ok bool)
}

// noRanges is of a pool of which nothing is reserved.
type noRanges struct{}

func (noRanges) Next(netip.Addr) (first, last netip.Addr, ok bool) { return first, last, false }

// inUse visits the numbers that somebody has, in order.
func inUse(used Used[uint], visit func(n uint)) {
	for n, ok := used.NextTaken(0); ok; n, ok = used.NextTaken(n + 1) {
		visit(n)
	}
}

// count is how many numbers somebody has.
func count(used Used[uint]) (n int) {
	inUse(used, func(uint) { n++ })
	return n
}

// list writes the numbers that somebody has as "1-3, 10".
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
