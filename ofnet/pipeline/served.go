package pipeline

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Served is what a flow of a service counts: requests to a provider, for a port of the
// service; or answers from a provider, from one of its own ports. Answers are those to
// endpoints of the node, or to all who are no endpoints; whether they were asked for through
// the service or not.
type Served struct {
	Provider netip.Addr
	Address  netip.Addr // of the service; invalid: answers are counted
	Protocol uint8
	Port     uint16 // of the service; 0: answers are counted
	Target   uint16 // of the provider; 0: requests are counted
	Leaving  bool   // answers to who is no endpoint. They are counted on the provider's node and, again, where the client came in
}

// ServedFlows select the flows of a service that count, and some that do not.
func ServedFlows(service Key) []openflow.FlowFilter {
	return []openflow.FlowFilter{
		{OneTable: true, Table: tableSource, Cookie: Cookie(service), CookieMask: ^uint64(0)},
		{OneTable: true, Table: tableOutput, Cookie: Cookie(service), CookieMask: ^uint64(0)},
		{OneTable: true, Table: tableForward, Cookie: Cookie(service), CookieMask: ^uint64(0)},
	}
}

// ServedBy tells what a flow of a service counts, if it counts.
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
	if f.Table == tableSource {
		mark := field(openflow.FieldCTMark).Lo
		return Served{Provider: ip.address(field(ip.dstField)), Address: addressOf(field(openflow.FieldCTLabel)),
			Protocol: uint8(mark >> 16), Port: uint16(mark)}, ok
	}
	s = Served{Provider: ip.address(field(ip.srcField)), Protocol: uint8(field(openflow.FieldIPProto).Lo), Leaving: f.Table == tableForward}
	if s.Protocol == openflow.ProtoTCP {
		s.Target = uint16(field(openflow.FieldTCPSrc).Lo)
	} else {
		s.Target = uint16(field(openflow.FieldUDPSrc).Lo)
	}
	return s, ok
}

// address is the one that is the value of a field.
func (f family) address(v openflow.Value) netip.Addr {
	if f.index() == 0 {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(v.Lo))))
	}
	return addressOf(v)
}
