package pipeline

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// refuse answers clients of a service that it is not served: it has no provider, or no such port.
//
// Flows can make neither a TCP reset nor an ICMP error, so the packet goes to the agent, which answers it
// (package refusal). It has passed the meter of its port in table ANSWER before, like everything that is
// answered, and then that of its class. The excess is dropped without an answer.
//
// An endpoint that visits a service of another tenant (visit.go) no longer has its own address in the packet,
// so the answer goes through the tables, as one of the host.
type refuse struct {
	gateway [6]byte
	noMeter bool
}

// PacketRefused is the class of packets to services that are not served.
const PacketRefused PacketClass = 1

// How many packets of all ports of a switch the agent may receive.
const (
	refusalsPerSecond = 1000
	refusalsAtOnce    = 1000
)

func (r refuse) base(w *Wants) {
	if !r.noMeter {
		w.Meters = append(w.Meters, PacketRefused.Meter(refusalsPerSecond, refusalsAtOnce))
	}
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(at(tableReply, priorityOther, f.is()).drop(reasonNoProvider))
		if r.noMeter {
			continue
		}
		for _, protocol := range []uint8{openflow.ProtoTCP, openflow.ProtoUDP} {
			ip := openflow.IPProto(protocol)
			w.flow(
				at(tableReply, priorityExact, f.is(), ip).do(PacketRefused.Action()).drop(reasonNoProvider),
				at(tableReply, priorityVisit, regOrigin.is(originEntered), openflow.EthSrc(r.gateway), f.is(), ip).
					do(PacketRefused.Action(noteVisitor)).drop(reasonNoProvider))
		}
	}
}

// noteVisitor is the note about a packet of an endpoint that visits a service of another tenant.
const noteVisitor = 1

// Reply sends a frame to the sender of the packet.
func (p Packet) Reply(frame []byte) openflow.PacketOut {
	out := openflow.PacketOut{Data: frame, Actions: []openflow.Action{openflow.Output{Port: p.Port}}}
	if slices.Equal(p.Note, []byte{noteVisitor}) {
		out.Actions = append(arrived(originHost), openflow.Resubmit{Table: tableSource})
	}
	return out
}
