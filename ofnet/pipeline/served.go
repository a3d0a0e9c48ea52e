package pipeline

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Served is what a flow of a service counts: requests to a provider for a port of the service, or its
// answers to those (answered.go).
type Served struct {
	Provider netip.Addr
	Address  netip.Addr // of the service
	Protocol uint8
	Port     uint16 // of the service
	Answers  bool
}

// ServedFlows selects the flows of a service that count, and some that do not.
func ServedFlows(service Key) []openflow.FlowFilter {
	return []openflow.FlowFilter{
		{OneTable: true, Table: tableSource, Cookie: Cookie(service), CookieMask: ^uint64(0)},
		{OneTable: true, Table: tableCounted, Cookie: Cookie(service), CookieMask: ^uint64(0)},
	}
}

// ServedBy returns what a flow of a service counts, if it counts.
func ServedBy(f openflow.Flow) (s Served, ok bool) {
	ok = true
	field := func(of openflow.Field) openflow.Value {
		m, has := f.Match.Get(of)
		ok = ok && has
		return m.Value
	}
	ip := ipv4()
	if field(openflow.FieldEthType).Lo == openflow.EthTypeIPv6 {
		ip = ipv6()
	}
	mark := field(openflow.FieldCTMark).Lo
	s = Served{Address: addressOf(field(openflow.FieldCTLabel)), Protocol: uint8(mark >> 16), Port: uint16(mark), Answers: f.Table == tableCounted}
	if !s.Answers {
		s.Provider = ip.address(field(ip.dstField))
		return s, ok
	}
	word := func(i int) uint64 { return field(openflow.FieldReg(regScratch.Index + i)).Lo }
	provider := openflow.Value{Lo: word(3)}
	if ip.index() != 0 {
		provider = openflow.Value{Hi: word(0)<<32 | word(1), Lo: word(2)<<32 | word(3)}
	}
	s.Provider = ip.address(provider)
	return s, ok
}

// address returns the address in the value of a field.
func (f family) address(v openflow.Value) netip.Addr {
	if f.index() == 0 {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(v.Lo))))
	}
	return addressOf(v)
}
