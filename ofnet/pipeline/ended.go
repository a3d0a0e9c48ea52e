package pipeline

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// ended replaces the entries of ended TCP connections by new ones. The connection tracker keeps an entry for
// half a minute and more after the end of a connection. A client that has connected to a provider by the
// service, and then connects to it directly from the same source port, would get answers from the service's
// address all that time, and never connect.
//
// A provider sends SYN-ACK for a connection, again until it has the client's ACK, and nothing else before that. A SYN-ACK
// after anything else belongs to another connection, for which the provider has closed the first. (With TCP Fast Open it may
// answer data of the SYN before that ACK; a SYN-ACK that is repeated then counts as another connection's.)
//
//	OUTPUT, FORWARD  from a provider: its TCP port is saved in the second half of DST_MAC, which is not needed any more
//
//	ANSWERED  the provider sends something other than SYN-ACK: markOpened is set in the mark of the connection
//	SOURCE    the client sends RST, which it may do at once: likewise
//	ANSWERED  a SYN-ACK on a connection with that bit is of another connection: the provider becomes its source again
//	COUNTED   ct(commit,force) on that SYN-ACK: the tracker removes the entry
//
// That is done in COUNTED, on a copy (stray.go), because the switch refuses a flow that matches packets which are invalid to the
// tracker and commits them. A SYN-ACK whose port was not saved, as of a provider in a routed VLAN, is dropped: the provider
// repeats it a second later, and the client gets that. While a client has a connection by the service, the provider
// accepts no other one from the same source port. If the client connects by the service anew, the tracker makes a new entry, without
// the bit; but not if both ends have lost the connection without FIN or RST: then the client connects by its second SYN. Packets of
// clients are matched by TCP flags only until the bit is set, as that makes each look-up longer.
//
// There is nothing alike for UDP, which has no end of connections. An answer matches the entry of the connection by the service,
// whichever datagram it answers, but a datagram of the client to the provider itself does not, so the tracker (of Open
// vSwitch 3.1, and the kernel's) does not notice it. ct(commit,force) on a copy with source and destination exchanged would remove
// the entry. But to copy fields of a packet makes the datapath's flow match this address and port exactly: each source port of a
// client that asks a provider directly would cost an upcall to ovs-vswitchd, and meters do not limit copies, so an endpoint could
// keep it busy without a limit.
type ended struct{}

// markOpened is the bit of the mark that is set once the provider has sent something other than SYN-ACK, or the client RST.
const markOpened = uint32(1) << (markOrigin + 3)

func (ended) base(w *Wants) {
	mark := openflow.CTMark(markOpened, markOpened)
	notes := aside(inZoneOfVRF(openflow.CT{Commit: true, Actions: []openflow.Action{set(mark)}}))
	forgets := inZoneOfVRF(openflow.CT{Commit: true, Force: true}) // a SYN-ACK in the other direction, which cannot begin a connection
	ask := openflow.Resubmit{Table: tableCounted}
	forget := visitAside(tableCounted, regReason.set(uint32(reasonInvalid)))
	noPort := openflow.Reg(regDstMAC.Index+1, 0, ^uint32(0))
	served := openflow.CTMark(uint32(openflow.ProtoTCP)<<markProtocol, 0xff<<markProtocol|markOpened) // of services: only these have a protocol
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
			// Once: recorded in the reason, the packet is counted when it comes back to the table.
			opens(tableSource, priorityGuard, ongoing(), openflow.TCPFlags(openflow.TCPRst, openflow.TCPRst), regReason.is(0)).
				do(notes, regReason.set(noted)).backTo(tableSource),
			accepted(priorityEntered, noPort).do(forget).drop(reasonInvalid),
			accepted(priorityRestore, regOut.is(0)).do(forget).do(restored(f)...).backTo(tableForward),
			accepted(priorityGuard).do(forget).do(restored(f)...).backTo(tableOutput),
			at(tableCounted, priorityGuard, regReason.is(uint32(reasonInvalid)), f.is()).do(forgets).end())
	}
}

// noted is no reason for a drop: it records that the packet's RST is in the mark already.
const noted = 1<<8 - 1

// ongoing matches packets of an established connection in its original direction.
func ongoing() openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk|openflow.CTEst, openflow.CTTrk|openflow.CTEst|openflow.CTRpl|openflow.CTInv)
}

// lookUpAnswerOf looks up what a provider sends from a port. A TCP port is saved, since it may have to be restored.
func (o Service) lookUpAnswerOf(b backend) (actions []openflow.Action) {
	if b.protocol == openflow.ProtoTCP {
		actions = append(actions, set(openflow.Reg(regDstMAC.Index+1, uint32(b.at.Port()), ^uint32(0))))
	}
	return append(actions, o.lookUpAnswer(b.at.Addr())...)
}

// restored makes the provider the source again, by the saved address and port.
func restored(f family) []openflow.Action {
	return append([]openflow.Action{openflow.Move{Src: keptPort, Dst: openflow.FieldTCPSrc, Bits: 16}}, fromKept(f)...)
}

// fromKept makes the provider the source again, by the saved address.
func fromKept(f family) []openflow.Action {
	if f.srcField.Bits() <= 32 {
		return []openflow.Action{openflow.MoveAll(openflow.FieldReg(regScratch.Index+3), f.srcField)}
	}
	const half = 64
	return []openflow.Action{openflow.Move{Src: openflow.FieldXReg(regScratch.Index / 2), Dst: f.srcField, DstOfs: half, Bits: half},
		openflow.Move{Src: openflow.FieldXReg(regScratch.Index/2 + 1), Dst: f.srcField, Bits: half}}
}

// inZoneOfVRF sets the zone of the services of the packet's VRF.
func inZoneOfVRF(ct openflow.CT) openflow.CT {
	ct.ZoneField = openflow.Subfield{Field: openflow.FieldReg(regVRF.Index), Bits: regVRF.Bits}
	return ct
}
