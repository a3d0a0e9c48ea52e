package pipeline

import (
	"encoding/binary"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// related translates ICMP errors of routers between a service's provider and a client, as the client knows only the
// service.
//
// For IPv6, the userspace datapath of Open vSwitch (3.1) replaces the error's sender by the service's address,
// and then corrects the bytes in the error where a packet of the connection has its checksum: for UDP the MTU,
// for TCP the first bytes of the quoted client. The correction is zero if the address was the same before. So
// the error first gets the service's address as its sender, from the label of the connection:
//
//	OUTPUT    ct(table=RELATED): looked up, and nothing is written
//	RELATED   about a packet to a service: label to sender, ct(nat,table=OUTPUT)
//
// An error about a provider's answers has a translated receiver instead, which no flow knows in advance. There
// the MTU of UDP is spoiled all the same, and of TCP nothing, as the quoted provider is written last.
type related struct{}

func (related) base(w *Wants) {
	f := ipv6()
	about := openflow.CTState(openflow.CTRel|openflow.CTRpl|openflow.CTTrk, openflow.CTRel|openflow.CTRpl|openflow.CTTrk)
	w.flow(
		at(tableRelated, priorityExcept, f.is(), about, openflow.CTMark(0, 1<<markOrigin-1)).backTo(tableOutput), // of no service
		at(tableRelated, priorityExact, f.is(), about).do(openflow.MoveAll(openflow.FieldCTLabel, f.srcField), inVRF(tableOutput, openflow.NAT{})).end())
	for _, f := range []family{ipv4(), ipv6()} {
		for _, origin := range []uint32{originTunnel, originHost} {
			w.flow(f.errorsOfRouters(origin)...)
		}
	}
}

// errorsOfRouters looks up errors that come from other nodes or from outside; for IPv6 those of providers there, too.
func (f family) errorsOfRouters(origin uint32) (all []openflow.Flow) {
	priority := priorityExcept
	if f.index() != 0 {
		priority = priorityHairpin
	}
	for _, kind := range f.errors {
		all = append(all, at(tableOutput, priority, regOrigin.is(origin), regFlooded.is(0), f.is(), openflow.IPWhole(),
			f.isICMP(), f.icmpType(kind), openflow.CTState(0, openflow.CTTrk)).do(f.translateError()).end())
	}
	return all
}

// translateError looks an error up in the VRF of the packet, and continues in OUTPUT.
func (f family) translateError() openflow.Action {
	if f.index() != 0 {
		return inVRF(tableRelated)
	}
	return inVRF(tableOutput, openflow.NAT{})
}

// inVRF looks a packet up in the zone of its VRF, and continues in a table.
func inVRF(table uint8, more ...openflow.Action) openflow.Action {
	vrf := openflow.Subfield{Field: openflow.FieldReg(regVRF.Index), Ofs: regVRF.Ofs, Bits: regVRF.Bits}
	return openflow.CT{ZoneField: vrf, Recirculate: true, Table: table, Actions: more}
}

// familyIn returns the IP family of the packet in a frame.
func familyIn(frame []byte) family {
	if len(frame) >= ethernetHeader && binary.BigEndian.Uint16(frame[ethernetHeader-2:]) == openflow.EthTypeIPv6 {
		return ipv6()
	}
	return ipv4()
}
