package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// ended keeps what has ended out of the way of what begins. The connection tracker knows a connection of TCP for half a minute
// and more after its end. A client that has asked a provider through the service, and then asks it directly from the
// same port, as one does by chance that asks often, would be answered by the service all that time, and never connect:
//
//	ANSWERED  the provider ends a connection, or resets it: its mark says so
//	SOURCE    so does a client's reset, after which the provider says nothing
//	ANSWERED  an acceptance that is none of a connection with that mark goes no further
//	COUNTED   asked about it: the tracker forgets the connection
//
// COUNTED does it, as the switch refuses a flow that matches what the tracker takes for invalid and commits it.
// The acceptance is gone, as its sender is the service by now. The provider repeats it a second later, and the client gets it. What
// has not ended is not forgotten: while a client has a connection through the service, one to its provider from the same
// port is not answered. Nor is one forgotten that a client behind the uplink has reset, which has no mark, before the tracker's own time is over. The kernel's
// tracker may not take such an acceptance for invalid; there it is as without this file.
type ended struct{}

// markEnded is the bit of a mark that says that the connection has ended, or is about to.
const markEnded = uint32(1) << (markOrigin + 3)

func (ended) base(w *Wants) {
	mark := openflow.CTMark(markEnded, markEnded)
	notes := aside(inZoneOfVRF(openflow.CT{Commit: true, Actions: []openflow.Action{set(mark)}}))
	forgets := inZoneOfVRF(openflow.CT{Commit: true, Force: true}) // the other way round, and no acceptance begins a connection
	ask := openflow.Resubmit{Table: tableCounted}
	const accepts = openflow.TCPSyn | openflow.TCPAck
	for _, f := range []family{ipv4(), ipv6()} {
		tcp := openflow.Match{f.is(), openflow.IPProto(openflow.ProtoTCP)}
		for i, end := range []uint16{openflow.TCPFin, openflow.TCPRst} { // either may have both
			ends := append(tcp[:len(tcp):len(tcp)], answering(), openflow.TCPFlags(end, end))
			w.flow(
				at(tableAnswered, priorityService+uint16(i), append(ends[:len(ends):len(ends)], regOut.is(0))...).do(notes, ask).backTo(tableForward),
				at(tableAnswered, priorityRefuse+uint16(i), ends...).do(notes, ask).backTo(tableOutput))
		}
		for _, origin := range []uint32{originLocal, originEntered} { // neither has a group that SOURCE finds
			w.flow(at(tableSource, priorityHairpin, append(tcp[:len(tcp):len(tcp)], regOrigin.is(origin), openflow.CTState(openflow.CTTrk, openflow.CTTrk|openflow.CTRpl|openflow.CTInv),
				openflow.CTMark(openflow.ProtoTCP<<16, 0xff<<16), openflow.TCPFlags(openflow.TCPRst, openflow.TCPRst))...).do(notes).goTo(tableDest))
		}
		w.flow(
			at(tableAnswered, priorityGuard, append(tcp[:len(tcp):len(tcp)], tracked(openflow.CTInv), mark, openflow.TCPFlags(accepts, accepts))...).
				do(regReason.set(uint32(reasonInvalid)), ask).drop(reasonInvalid),
			at(tableCounted, priorityGuard, regReason.is(uint32(reasonInvalid)), f.is()).do(forgets).end())
	}
}

// inZoneOfVRF has the tracker look in the zone of the services of the packet's VRF.
func inZoneOfVRF(ct openflow.CT) openflow.CT {
	ct.ZoneField = openflow.Subfield{Field: openflow.FieldReg(regVRF.Index), Bits: regVRF.Bits}
	return ct
}
