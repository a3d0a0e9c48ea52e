package master

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// The sets of numbers that are assigned. The record of the owner has the number; the ledger's index says which are
// free.
const (
	vlanSet    = "vlan"     // networks, and groups in a fabric
	vniSet     = "vni"      // networks
	localSet   = "localtag" // networks with a VNI: the tag inside a host
	groupIDSet = "group"
	vrfSet     = "vrf" // tenants
)

// addressSet returns the set of a network's addresses of one family: those of endpoints and services,
// and those held for future endpoints.
func addressSet(networkID string, like netip.Addr) string {
	if like.Is4() {
		return "ipv4/" + networkID
	}
	return "ipv6/" + networkID
}

// addressTerm returns the index term of a record with an address.
func addressTerm(networkID string, addr netip.Addr) string {
	return ledger.NumberTerm(addressSet(networkID, addr), addr.AsSlice())
}

// addressTerms returns the index terms of addresses as texts; a text that is no address has none.
func addressTerms(networkID string, texts ...string) []string {
	var terms []string
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			terms = append(terms, addressTerm(networkID, addr))
		}
	}
	return terms
}

// addresses are the taken addresses of a network.
type addresses struct {
	r         ledger.Reader
	networkID string
}

// NextFree implements resources.Used.
func (a addresses) NextFree(from netip.Addr) (netip.Addr, bool) {
	raw, ok := a.r.NextFree(addressSet(a.networkID, from), from.AsSlice())
	if !ok {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(raw)
}

// NextTaken implements resources.Used.
func (a addresses) NextTaken(from netip.Addr) (netip.Addr, bool) {
	raw, ok := nextTaken(a.r, addressSet(a.networkID, from), from.AsSlice())
	if !ok {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(raw)
}

func nextTaken(r ledger.Reader, set string, from []byte) (taken []byte, ok bool) {
	r.Search(ledger.NumberTerm(set, nil), ledger.NumberTerm(set, from), func(term, _ string) bool {
		taken, ok = ledger.Number(set, term)
		return false
	})
	return taken, ok
}

// AddressCount counts the taken addresses of a network.
func AddressCount(r ledger.Reader, networkID string) (n int) {
	for _, family := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		last := ""
		r.Search(ledger.NumberTerm(addressSet(networkID, family), nil), "", func(term, _ string) bool {
			if term != last {
				n++
			}
			last = term
			return true
		})
	}
	return n
}

// numbers are the taken numbers of a set. They have two bytes.
type numbers struct {
	r   ledger.Reader
	set string
}

func numberTerm(set string, n int) string {
	return ledger.NumberTerm(set, binary.BigEndian.AppendUint16(nil, uint16(n)))
}

// NextFree implements resources.Used.
func (s numbers) NextFree(from uint) (uint, bool) {
	if from > 0xffff {
		return from, true
	}
	raw, ok := s.r.NextFree(s.set, binary.BigEndian.AppendUint16(nil, uint16(from)))
	if !ok {
		return 0xffff + 1, true
	}
	return uint(binary.BigEndian.Uint16(raw)), true
}

// NextTaken implements resources.Used.
func (s numbers) NextTaken(from uint) (uint, bool) {
	if from > 0xffff {
		return 0, false
	}
	raw, ok := nextTaken(s.r, s.set, binary.BigEndian.AppendUint16(nil, uint16(from)))
	if !ok || len(raw) != 2 {
		return 0, false
	}
	return uint(binary.BigEndian.Uint16(raw)), true
}

// groupRanges are the ranges that groups of a network have reserved.
type groupRanges struct {
	r         ledger.Reader
	networkID string
}

// rangeOf returns the index term of a group's range: ranges of a network do not overlap, so the first one that
// ends at or after an address is the one that contains it, or the next.
func rangeOf(networkID string, first, last netip.Addr) string {
	return rangeTerm + networkID + "/" + sortable(last) + "/" + sortable(first)
}

// Next implements resources.Ranges.
func (g groupRanges) Next(from netip.Addr) (first, last netip.Addr, ok bool) {
	_, first, last, ok = g.next(from)
	return first, last, ok
}

// next is Next with the model key of the group.
func (g groupRanges) next(from netip.Addr) (group string, first, last netip.Addr, ok bool) {
	prefix := rangeTerm + g.networkID + "/"
	g.r.Search(prefix, prefix+sortable(from), func(term, key string) bool {
		end, begin, _ := strings.Cut(term[len(prefix):], "/")
		group = key[len(mastercfg.ModelKey("endpointGroup", "")):]
		first, last = fromSortable(begin), fromSortable(end)
		ok = first.IsValid() && last.IsValid()
		return false
	})
	return group, first, last, ok
}

// sortable encodes an address so that the texts sort as the addresses do.
func sortable(addr netip.Addr) string { return hex.EncodeToString(addr.AsSlice()) }

func fromSortable(text string) netip.Addr {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(raw)
	return addr
}
