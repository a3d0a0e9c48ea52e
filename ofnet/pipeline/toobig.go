package pipeline

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// tooBig finds packets of a local endpoint, or the host, that exceed the MTU to other nodes, where networks are
// routed: an endpoint may have a larger MTU, of its own choice, or from before the underlay changed.
//
//	FORWARD   packets about to leave by a router get the bit TOO_BIG if it is larger
//	          than the MTU: to another network, to the same one, outside, and back to clients
//	          that came in by a host
//	OUTPUT    with the bit: to ANSWER
//	ANSWER    passes the meter of its port, and the endpoint's own addresses are restored
//	REPLY     to the agent, with MTU and gateway of the network
//
// The agent answers as a router would (package icmperror). Flows cannot, as they make no packets. Nor can they
// make fragments, so IPv4 packets that may be fragmented are answered as well.
//
// The size is checked late, when the rules have been applied, since the switch computes both cases in advance,
// and the rest of the pipeline for each.
//
// If the switch cannot compare sizes in the datapath, all packets would go through ovs-vswitchd, and without a
// meter for them too many would reach the agent. Then sizes are not checked, and MTU is 0.
type tooBig struct {
	mtu int // bytes of IP; 0: sizes are not checked
}

// PacketTooBig is the class of packets that are too big.
const PacketTooBig PacketClass = 2

// How many packets of all ports of a switch the agent may receive.
const (
	tooBigPerSecond = 1000
	tooBigAtOnce    = 1000
)

// ethernetHeader is the size of a frame's header before the IP packet, in bytes; endpoints send no tags.
const ethernetHeader = 14

// check writes the bit; it has no actions if sizes are not checked.
func (t tooBig) check() []openflow.Action {
	if t.mtu == 0 {
		return nil
	}
	bit := openflow.Subfield{Field: openflow.FieldReg(regTooBig.Index), Ofs: regTooBig.Ofs, Bits: 1}
	return []openflow.Action{openflow.CheckLarger{Size: uint16(t.mtu + ethernetHeader), Dst: bit}}
}

func (t tooBig) base(w *Wants) {
	if t.mtu == 0 {
		return
	}
	w.Meters = append(w.Meters, PacketTooBig.Meter(tooBigPerSecond, tooBigAtOnce))
	w.flow(
		at(tableOutput, priorityTooBig, regTooBig.is(1)).do(openflow.Resubmit{Table: tableAnswer}).end(),
		at(tableReply, priorityGuard, regTooBig.is(1)).drop(reasonTooBig))
}

// network's flows add what the agent needs for an answer. Within a network only packets of endpoints are
// checked: those from the tunnel have come this far.
func (t tooBig) network(w *Wants, n Network) {
	if t.mtu == 0 || n.Mode.Bridged() {
		return
	}
	tag := uint32(n.Tag)
	w.flow(at(tableForward, priorityChecked, regOrigin.is(originLocal), regRouted.is(0), within(tag)).
		do(t.check()...).goTo(tableOutput))
	for _, a := range n.gateways() {
		note := append(binary.BigEndian.AppendUint16(nil, uint16(t.mtu)), a.AsSlice()...)
		w.flow(at(tableReply, priorityTooBig, regTooBig.is(1), regNetwork.is(tag), familyOf(a).is()).
			do(PacketTooBig.Action(note...)).drop(reasonTooBig))
	}
}

func (t tooBig) endpoint(w *Wants, e placed) {
	if t.mtu == 0 || !e.local() || e.Mode.Bridged() {
		return
	}
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(e.together(at(tableAnswer, priorityTooBig, openflow.InPort(e.port), regTooBig.is(1), f.is()).metered(e.port).
			do(set(openflow.EthSrc(e.MAC)), set(f.src(inet.Host(a)))), groupAnswer))
	}
}

// outside reports to the host, and to clients that came in by it, packets that are too big for another node.
func (t tooBig) outside(w *Wants, o Outside, port uint32) {
	if t.mtu == 0 {
		return
	}
	w.flow(at(tableAnswer, priorityTooBig, openflow.InPort(port), regTooBig.is(1)).metered(port).
		do(set(openflow.EthSrc(o.MAC)), openflow.OutputGroup{ID: groupAnswer}).end())
}

// TooBig returns the MTU of a packet's path, in bytes of IP, and the address of the router that cannot forward it.
func (p Packet) TooBig() (mtu uint16, router netip.Addr, ok bool) {
	if p.Class != PacketTooBig || len(p.Note) < 2 {
		return 0, netip.Addr{}, false
	}
	router, ok = netip.AddrFromSlice(p.Note[2:])
	return binary.BigEndian.Uint16(p.Note), router, ok
}

// Answer sends a frame to the endpoint at a port of the switch, as a reply to the endpoint's own packet. An
// ICMP error about a connection that was translated is translated with it.
func (p Packet) Answer(frame []byte) openflow.PacketOut {
	return openflow.PacketOut{Data: frame, Actions: []openflow.Action{
		regVRF.set(uint32(p.VRF)), regOut.set(p.Port), familyIn(frame).translateError(),
	}}
}
