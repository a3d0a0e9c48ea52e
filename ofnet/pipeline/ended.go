package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// ended keeps what has ended out of the way of what begins. The connection tracker knows a connection of TCP for half a minute
// and more after its end. A client that has asked a provider through the service, and then asks it directly from the
// same port, as one does by chance that asks often, would be answered by the service all that time, and never connect:
//
//	ANSWERED  the provider ends a connection, by FIN or RST: its mark says so
//	          an acceptance that comes to a connection with that mark is of another one, and goes no further
//	SOURCE    so it does if the client ends it by RST
//	COUNTED   asked about an acceptance: the tracker forgets the connection
//
// COUNTED does it, as the switch refuses a flow that matches what the tracker takes for invalid and commits it.
// The acceptance is gone, as its sender is the service by now. The provider repeats it a second later, and the client gets it. What
// has not ended is not forgotten: while a client has a connection through the service, one to its provider from the same
// port is not answered. That a client has begun anew through the service takes the mark away, as the tracker makes another connection of it.
//
// Datagrams have no end. An answer has the ends of a connection through the service, whatever it answers, and what the client sends to the provider itself
// has not, so the tracker (of Open vSwitch 3.1, and the kernel's) knows nothing about that. A copy of it with its ends exchanged has, and
// ct(commit,force) of that would have the connection forgotten. But what writes one field of a packet into another makes the datapath's flow one of this
// address and port alone: ovs-vswitchd would be asked for each port of a client that asks a provider directly, and meters
// drop packets, not copies, so that an endpoint could keep it busy with nothing in the way.
type ended struct{}

// markEnded is the bit of a mark that says that the connection has ended, or that the provider has done with it.
const markEnded = uint32(1) << (markOrigin + 3)

func (ended) base(w *Wants) {
	mark := openflow.CTMark(markEnded, markEnded)
	notes := aside(inZoneOfVRF(openflow.CT{Commit: true, Actions: []openflow.Action{set(mark)}}))
	forgets := inZoneOfVRF(openflow.CT{Commit: true, Force: true}) // the other way round, and no acceptance begins a connection
	ask := openflow.Resubmit{Table: tableCounted}
	const accepts = openflow.TCPSyn | openflow.TCPAck
	for _, f := range []family{ipv4(), ipv6()} {
		tcp := openflow.Match{f.is(), openflow.IPProto(openflow.ProtoTCP)}
		for _, flag := range []uint16{openflow.TCPFin, openflow.TCPRst} {
			ends := append(tcp[:len(tcp):len(tcp)], answering(), openflow.TCPFlags(flag, flag))
			w.flow(
				at(tableAnswered, priorityService, append(ends[:len(ends):len(ends)], regOut.is(0))...).do(notes, ask).backTo(tableForward),
				at(tableAnswered, priorityRefuse, ends...).do(notes, ask).backTo(tableOutput))
		}
		w.flow(
			// Once: then it is counted.
			at(tableSource, priorityGuard, append(tcp[:len(tcp):len(tcp)], ongoing(), openflow.CTMark(0, markEnded), openflow.TCPFlags(openflow.TCPRst, openflow.TCPRst), regReason.is(0))...).
				do(notes, regReason.set(noted)).backTo(tableSource),
			at(tableAnswered, priorityGuard, append(tcp[:len(tcp):len(tcp)], tracked(0), mark, openflow.TCPFlags(accepts, accepts))...).
				do(regReason.set(uint32(reasonInvalid)), ask).drop(reasonInvalid),
			at(tableCounted, priorityGuard, regReason.is(uint32(reasonInvalid)), f.is()).do(forgets).end())
	}
}

// noted is a reason for which nothing is thrown away: it has been noted that the packet ends a connection.
const noted = 1<<8 - 1

// ongoing matches what the connection tracker knows as part of a connection, and not as an answer.
func ongoing() openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk|openflow.CTEst, openflow.CTTrk|openflow.CTEst|openflow.CTRpl|openflow.CTInv)
}

// inZoneOfVRF has the tracker look in the zone of the services of the packet's VRF.
func inZoneOfVRF(ct openflow.CT) openflow.CT {
	ct.ZoneField = openflow.Subfield{Field: openflow.FieldReg(regVRF.Index), Bits: regVRF.Bits}
	return ct
}
