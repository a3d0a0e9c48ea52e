package pipeline

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// echo tests whether packets pass the network between nodes: the link of a node may be down there, or UDP 4789
// filtered, while registrations use another network. The switch of a tested node answers by itself, whatever its
// agent does.
//
//	OUTPUT    what the agent asks: into the tunnel, in a VNI that no network has
//	CLASSIFY  in that VNI, of echoType: to PEER
//	PEER      from a known node    a question: back into the tunnel, as an answer
//	                               an answer: to the agent that has asked
type echo struct {
	tunnelPort uint32
	underlay6  bool // tunnels are of IPv6
}

// PacketEcho is the class of answers of other nodes.
const PacketEcho PacketClass = 5

// How many answers the agent may receive, and how many requests answer, for all nodes.
const (
	echoesPerSecond = 2000
	echoesAtOnce    = 2000
)

// echoType is that of the frames (IEEE 802, local experiments), echoVNI where they are.
const (
	echoType = 0x88b5
	echoVNI  = 0
)

// echoAsked is the destination of a request, echoAnswered that of an answer.
var (
	echoAsked    = [6]byte{0x02, 0x63, 0x6e, 0x73, 0x01, 0x01}
	echoAnswered = [6]byte{0x02, 0x63, 0x6e, 0x73, 0x01, 0x02}
)

func (e echo) base(w *Wants) {
	if e.tunnelPort == 0 {
		return
	}
	w.Meters = append(w.Meters, PacketEcho.Meter(echoesPerSecond, echoesAtOnce))
	w.flow(
		at(tableOutput, priorityExact, regOut.is(outAsked)).do(set(openflow.TunnelID(echoVNI)), openflow.Output{Port: e.tunnelPort}).end(),
		at(tableClassify, priorityExact, openflow.InPort(e.tunnelPort), openflow.TunnelID(echoVNI), openflow.EthType(echoType)).goTo(tablePeer))
}

func (e echo) peer(w *Wants, p Peer) {
	from, to, bits := openflow.FieldTunSrc, openflow.FieldTunDst, uint16(32)
	if e.underlay6 {
		from, to, bits = openflow.FieldTunIPv6Src, openflow.FieldTunIPv6Dst, 128
	}
	receives := func(receiver [6]byte) flowBuilder {
		return peers{}.sends(p.VTEP, priorityExact, regNetwork.is(0), openflow.EthType(echoType), openflow.EthDst(receiver)).metered(PacketEcho.meter())
	}
	w.flow(
		receives(echoAsked).do(set(openflow.EthDst(echoAnswered)), openflow.Move{Src: from, Dst: to, Bits: bits}, openflow.Output{Port: openflow.PortInPort}).end(),
		receives(echoAnswered).do(PacketEcho.metered(0, p.VTEP.AsSlice()...)).drop(reasonTold))
}

// echoSize is the size of a frame, which has its number after the header.
const echoSize = 60

// AskNode returns a request to the node at a tunnel address; its answer has the same number.
func AskNode(vtep netip.Addr, number uint64) openflow.PacketOut {
	frame := append(echoAsked[:], AnycastMAC[:]...)
	frame = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(frame, echoType), number)
	return openflow.PacketOut{Data: append(frame, make([]byte, echoSize-len(frame))...), Actions: []openflow.Action{
		set(openflow.TunDst(inet.Host(vtep))), regOut.set(outAsked), openflow.Resubmit{Table: tableOutput},
	}}
}

// AnsweredBy returns the node that has answered a request, and the number of the request.
func (p Packet) AnsweredBy() (vtep netip.Addr, number uint64, ok bool) {
	if p.Class != PacketEcho || len(p.Data) < ethernetHeader+8 {
		return netip.Addr{}, 0, false
	}
	vtep, ok = netip.AddrFromSlice(p.Note)
	return vtep, binary.BigEndian.Uint64(p.Data[ethernetHeader:]), ok
}
