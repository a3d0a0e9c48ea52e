package pipeline

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// quoted translates ICMP errors from outside about packets that endpoints have sent there: too big,
// unreachable, too many hops. Such an error quotes the packet, with the private address of outside.go, which
// the endpoint does not know. No flow can rewrite quoted packets, so the agent does (package icmperror). An
// error in fragments is delivered as it is: its checksum covers all of them.
//
// The error itself has been forwarded to the endpoint like any packet, and the rules have been applied, when it
// goes to the agent instead of to OUTPUT.
//
// An error about an answer from a node port is not translated here, but with its connection (entrance.go). It is for
// the address of all node ports and quotes the number of one, which no flow can match. If one tenant has all node
// ports, the switch looks it up among that tenant's connections; otherwise the agent finds the tenant by the number:
//
//	ROUTER   from the host, about a node port: to the agent
//	         the agent sends it back with the VRF, to be looked up there
type quoted struct{ noMeter bool }

// PacketError is the class of ICMP errors from outside.
const PacketError PacketClass = 3

// How many errors a switch may send to the agent. They are rare; more are of no use.
const (
	errorsPerSecond = 1000
	errorsAtOnce    = 1000
)

func (q quoted) base(w *Wants) {
	if q.noMeter {
		return
	}
	w.Meters = append(w.Meters, PacketError.Meter(errorsPerSecond, errorsAtOnce))
	for _, f := range []family{ipv4(), ipv6()} {
		for _, kind := range f.errors {
			w.flow(at(tableForward, priorityService, f.whole(regOrigin.is(originHost), f.isICMP(), f.icmpType(kind))...).
				do(PacketError.Action()).drop(reasonQuoted))
		}
	}
}

// noteNodePort is the note about an error about an answer from a node port.
const noteNodePort = 1

func (q quoted) outside(w *Wants, o Outside, _ uint32) {
	if q.noMeter || o.Entered != 0 {
		return
	}
	for _, p := range o.Prefixes() {
		for _, about := range errorsAbout(p.Addr()) {
			w.flow(entered(NodePorts(p), priorityExcept, append(about, openflow.IPWhole())...).
				do(PacketError.Action(noteNodePort)).drop(reasonQuoted))
		}
	}
}

// AboutNodePort reports whether the packet is an ICMP error about an answer from a node port, of whatever tenant.
func (p Packet) AboutNodePort() bool {
	return p.Class == PacketError && slices.Equal(p.Note, []byte{noteNodePort})
}

// EnterIn resends the packet as the host has sent it, to be looked up among the connections of a VRF.
func (p Packet) EnterIn(vrf uint16) openflow.PacketOut {
	return openflow.PacketOut{InPort: p.Port, Data: p.Data, Actions: append(arrived(originEntered), enterNodePort(vrf)...)}
}

// Deliver sends a frame to the port that the packet was to leave by, as one from outside.
func (p Packet) Deliver(frame []byte) openflow.PacketOut {
	return openflow.PacketOut{Data: frame, Actions: []openflow.Action{
		regOrigin.set(originHost), regVRF.set(uint32(p.VRF)), regOut.set(p.Out), openflow.Resubmit{Table: tableOutput},
	}}
}
