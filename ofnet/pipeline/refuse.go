package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// refuse tells clients of a service that nobody serves them: no provider is
// there, or the service has no such port.
//
// Flows can make neither a TCP reset nor an ICMP error, so the packet goes to
// the agent, which answers it (package refusal). It has passed the meter of its
// port in table ANSWER before, as everything that is answered, and then that of
// its class. What exceeds them is dropped in silence.
type refuse struct{ noMeter bool }

// PacketRefused is the class of packets to which nobody answers.
const PacketRefused PacketClass = 1

// What the agent may be asked for by all ports of a switch.
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
			w.flow(at(tableReply, priorityExact, f.is(), openflow.IPProto(protocol)).
				do(PacketRefused.Action()).drop(reasonNoProvider))
		}
	}
}
