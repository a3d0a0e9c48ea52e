package pipeline

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Served is what a flow of a service counts: requests to a provider, for a port of the
// service; or answers from a provider, from one of its own ports. Answers are those to
// endpoints of the node, whether they were asked for through the service or not.
type Served struct {
	Provider netip.Addr
	Protocol uint8
	Port     uint16 // of the service; 0: answers are counted
	Target   uint16 // of the provider; 0: requests are counted
}

// ServedFlows select the flows of a service that count, and some that do not.
func ServedFlows(service Key) []openflow.FlowFilter {
	return []openflow.FlowFilter{
		{OneTable: true, Table: tableSource, Cookie: Cookie(service), CookieMask: ^uint64(0)},
		{OneTable: true, Table: tableOutput, Cookie: Cookie(service), CookieMask: ^uint64(0)},
	}
}

// ServedBy tells what a flow of a service counts, if it counts.
func ServedBy(f openflow.Flow) (s Served, ok bool) {
	field := func(of openflow.Field) uint64 {
		m, has := f.Match.Get(of)
		ok = ok && has
		return m.Value.Lo
	}
	address := func(n uint64) netip.Addr {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(n))))
	}
	ok = true
	if f.Table == tableSource {
		mark := field(openflow.FieldCTMark)
		return Served{Provider: address(field(openflow.FieldIPv4Dst)), Protocol: uint8(mark >> 16), Port: uint16(mark)}, ok
	}
	s = Served{Provider: address(field(openflow.FieldIPv4Src)), Protocol: uint8(field(openflow.FieldIPProto))}
	if s.Protocol == openflow.ProtoTCP {
		s.Target = uint16(field(openflow.FieldTCPSrc))
	} else {
		s.Target = uint16(field(openflow.FieldUDPSrc))
	}
	return s, ok
}
