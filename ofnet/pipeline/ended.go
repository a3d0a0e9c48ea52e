package pipeline

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// ended keeps what has ended out of the way of what begins. The connection tracker knows a connection of TCP for half a minute
// and more after its end. A client that has asked a provider through the service, and then asks it directly from the
// same port, as one does by chance that asks often, would be answered by the service all that time, and never connect.
//
// A provider accepts a connection once. It repeats that until it knows that the client has heard it, and sends nothing else before
// (but for answers to data that came with the SYN, by TCP Fast Open: then an acceptance that is repeated is taken for another one's).
// What it accepts after that is another connection, for which it must have no more of the first:
//
//	OUTPUT, FORWARD  from a provider: its port of TCP to the second half of DST_MAC, which has been used
//
//	ANSWERED  the provider sends something else than an acceptance: the mark of the connection says that it is open
//	SOURCE    so it does if the client resets it, which it may at once
//	ANSWERED  an acceptance that comes to a connection with that mark is of another one, and comes from the provider again
//	COUNTED   asked about it: the tracker forgets the connection
//
// COUNTED does it, as the switch refuses a flow that matches what the tracker takes for invalid and commits it, and does it aside
// (stray.go). An acceptance of which the port is not known, as of a provider of a routed VLAN, goes no further: the provider
// repeats it a second later, and the client gets it. While a client has a connection through the service, a provider does not accept
// one from the same port. That a client has begun anew through the service takes the mark away, as the tracker makes another
// connection of it. Of one that both ends have lost without FIN or RST it does not: then the client connects by its second SYN.
// With the mark no packet of the client is matched by the flags of TCP, which would cost each of them a longer look-up.
//
// Datagrams have no end. An answer has the ends of a connection through the service, whatever it answers, and what the client
// sends to the provider itself has not, so the tracker (of Open vSwitch 3.1, and the kernel's) knows nothing about that. A copy
// of it with its ends exchanged has, and ct(commit,force) of that would have the connection forgotten. But what writes one field
// of a packet into another makes the datapath's flow one of this address and port alone: ovs-vswitchd would be asked for each
// port of a client that asks a provider directly, and meters drop packets, not copies, so that an endpoint could keep it busy
// with nothing in the way.
type ended struct{}

// markOpened is the bit of a mark that says that the provider has accepted the connection for good, or that it is reset.
const markOpened = uint32(1) << (markOrigin + 3)

func (ended) base(w *Wants) {
	mark := openflow.CTMark(markOpened, markOpened)
	notes := aside(inZoneOfVRF(openflow.CT{Commit: true, Actions: []openflow.Action{set(mark)}}))
	forgets := inZoneOfVRF(openflow.CT{Commit: true, Force: true}) // the other way round, and no acceptance begins a connection
	ask := openflow.Resubmit{Table: tableCounted}
	forget := aside(regReason.set(uint32(reasonInvalid)), ask)
	noPort := openflow.Reg(regDstMAC.Index+1, 0, ^uint32(0))
	served := openflow.CTMark(uint32(openflow.ProtoTCP)<<markProtocol, 0xff<<markProtocol|markOpened) // what only passes by has no protocol
	goesOn := openflow.TCPFlags(0, openflow.TCPSyn)
	const accepts = openflow.TCPSyn | openflow.TCPAck
	for _, f := range []family{ipv4(), ipv6()} {
		tcp := openflow.Match{f.is(), openflow.IPProto(openflow.ProtoTCP)}
		accepted := func(priority uint16, more ...openflow.FieldMatch) flowBuilder {
			return at(tableAnswered, priority, slices.Concat(tcp, openflow.Match{tracked(0), mark, openflow.TCPFlags(accepts, accepts)}, more)...)
		}
		opens := func(table uint8, priority uint16, more ...openflow.FieldMatch) flowBuilder {
			return at(table, priority, slices.Concat(tcp, openflow.Match{served}, more)...)
		}
		w.flow(
			opens(tableAnswered, priorityService, answering(), goesOn, regOut.is(0)).do(notes, ask).backTo(tableForward),
			opens(tableAnswered, priorityRefuse, answering(), goesOn).do(notes, ask).backTo(tableOutput),
			// Once: then it is counted.
			opens(tableSource, priorityGuard, ongoing(), openflow.TCPFlags(openflow.TCPRst, openflow.TCPRst), regReason.is(0)).
				do(notes, regReason.set(noted)).backTo(tableSource),
			accepted(priorityEntered, noPort).do(forget).drop(reasonInvalid),
			accepted(priorityRestore, regOut.is(0)).do(forget).do(restored(f)...).backTo(tableForward),
			accepted(priorityGuard).do(forget).do(restored(f)...).backTo(tableOutput),
			at(tableCounted, priorityGuard, regReason.is(uint32(reasonInvalid)), f.is()).do(forgets).end())
	}
}

// noted is a reason for which nothing is thrown away: it has been noted that the packet resets a connection.
const noted = 1<<8 - 1

// ongoing matches what the connection tracker knows as part of a connection, and not as an answer.
func ongoing() openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk|openflow.CTEst, openflow.CTTrk|openflow.CTEst|openflow.CTRpl|openflow.CTInv)
}

// lookUpAnswerOf looks up what a provider sends from a port, and keeps that: of TCP it may have to be restored.
func (o Service) lookUpAnswerOf(b backend) (actions []openflow.Action) {
	if b.protocol == openflow.ProtoTCP {
		actions = append(actions, set(openflow.Reg(regDstMAC.Index+1, uint32(b.at.Port()), ^uint32(0))))
	}
	return append(actions, o.lookUpAnswer(b.at.Addr())...)
}

// restored makes the provider the sender again, with what was kept of it.
func restored(f family) []openflow.Action {
	actions := []openflow.Action{openflow.Move{Src: keptPort, Dst: openflow.FieldTCPSrc, Bits: 16}}
	if f.srcField.Bits() <= 32 {
		return append(actions, openflow.MoveAll(openflow.FieldReg(regScratch.Index+3), f.srcField))
	}
	const half = 64
	return append(actions, openflow.Move{Src: openflow.FieldXReg(regScratch.Index / 2), Dst: f.srcField, DstOfs: half, Bits: half},
		openflow.Move{Src: openflow.FieldXReg(regScratch.Index/2 + 1), Dst: f.srcField, Bits: half})
}

// inZoneOfVRF has the tracker look in the zone of the services of the packet's VRF.
func inZoneOfVRF(ct openflow.CT) openflow.CT {
	ct.ZoneField = openflow.Subfield{Field: openflow.FieldReg(regVRF.Index), Bits: regVRF.Bits}
	return ct
}
