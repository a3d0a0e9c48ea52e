package openflow

import (
	"context"
	"fmt"
)

// PacketIn is a packet that the switch sends to the controller.
type PacketIn struct {
	Reason   PacketInReason
	Table    uint8
	Cookie   uint64
	TotalLen int    // length of the packet, of which Data may be only the beginning
	Match    Match  // in_port, tunnel, metadata, registers
	UserData []byte // of the Controller action that sent it
	Data     []byte
	// Continuation is the pipeline state of a packet that was sent with Pause: the switch waits for
	// Resume. It is opaque.
	Continuation []byte
}

// PacketInReason is the reason why a packet was sent to the controller.
type PacketInReason uint8

// Reasons. The zero value of Controller.Reason is that of a table miss, as on the wire.
const (
	ReasonNoMatch PacketInReason = iota
	ReasonAction
	ReasonInvalidTTL
)

// InPort returns the port by which the packet entered the switch.
func (p PacketIn) InPort() uint32 {
	port, _ := p.Match.exact(FieldInPort)
	return uint32(port)
}

// String names the message in logs.
func (p PacketIn) String() string {
	return fmt.Sprintf("packet-in table=%d cookie=%#x %s (%d bytes)", p.Table, p.Cookie, p.Match, len(p.Data))
}

// PacketOut makes the switch apply actions to the packet in Data.
type PacketOut struct {
	InPort  uint32 // 0: PortController
	Actions []Action
	Data    []byte
}

// String names the message in errors.
func (p PacketOut) String() string {
	return fmt.Sprintf("packet-out of %d bytes actions=%s", len(p.Data), actionList(p.Actions))
}

// PacketOut sends a packet-out and waits until the switch has processed it.
func (c *Conn) PacketOut(ctx context.Context, packet PacketOut) error { return c.Send(ctx, packet) }

// Resume continues the processing of a packet that was sent with Pause, with changes to its data and
// to the registers of its match.
func (c *Conn) Resume(ctx context.Context, packet PacketIn) error {
	return c.Send(ctx, resume{packet})
}

// FlowRemoved reports that a flow with FlowSendRemoved was removed. It identifies the flow, but does
// not have its actions.
type FlowRemoved struct {
	FlowStats
	Reason FlowRemovedReason
}

// FlowRemovedReason is the reason why a flow was removed.
type FlowRemovedReason uint8

// Reasons.
const (
	RemovedIdleTimeout FlowRemovedReason = iota
	RemovedHardTimeout
	RemovedDelete
	RemovedGroupDelete
)

// String names the message in logs.
func (r FlowRemoved) String() string {
	return fmt.Sprintf("flow removed (reason %d): %s", r.Reason, r.Flow)
}

// SetAsync selects the events that the switch sends over this connection: a bit for each reason. Over
// its management socket it sends none by default.
type SetAsync struct{ PacketIn, PortStatus, FlowRemoved uint32 }

// String names the message in errors.
func (a SetAsync) String() string {
	return fmt.Sprintf("set async packet_in=%#x port_status=%#x flow_removed=%#x", a.PacketIn, a.PortStatus, a.FlowRemoved)
}

func (PacketIn) messageType() Type    { return TypePacketIn }
func (PacketOut) messageType() Type   { return TypePacketOut }
func (FlowRemoved) messageType() Type { return TypeFlowRemoved }
func (SetAsync) messageType() Type    { return TypeSetAsync }

// encodeBody writes a packet-in of OpenFlow 1.3, which has no user data and no continuation. The
// switch sends Nicira's format instead: nicira.go.
func (p PacketIn) encodeBody(e *encoder) {
	e.u32(noBufferID)
	e.u16(uint16(p.TotalLen))
	e.u8(uint8(p.Reason))
	e.u8(p.Table)
	e.u64(p.Cookie)
	e.match(p.Match)
	e.zeros(2)
	e.raw(p.Data)
}

func (d *decoder) packetIn() Message {
	d.skip(4)
	p := PacketIn{TotalLen: int(d.u16()), Reason: PacketInReason(d.u8()), Table: d.u8(), Cookie: d.u64()}
	p.Match = d.matchBody().knownFields()
	d.skip(2)
	p.Data = d.rest()
	return p
}

func (p PacketOut) encodeBody(e *encoder) {
	in := p.InPort
	if in == 0 {
		in = PortController
	}
	e.u32(noBufferID)
	e.u32(in)
	at := len(e.b)
	e.zeros(8)
	start := len(e.b)
	e.actions(p.Actions)
	e.length(at, start)
	e.raw(p.Data)
}

func (d *decoder) packetOut() Message {
	d.skip(4)
	p := PacketOut{InPort: d.u32()}
	if p.InPort == PortController {
		p.InPort = 0
	}
	n := int(d.u16())
	d.skip(6)
	list := d.sub(n)
	p.Actions = list.actions(0)
	d.join(list, "packet-out")
	p.Data = d.rest()
	return p
}

func (r FlowRemoved) encodeBody(e *encoder) {
	e.u64(r.Cookie)
	e.u16(r.Priority)
	e.u8(uint8(r.Reason))
	e.u8(r.Table)
	e.duration(r.Duration)
	e.u16(r.IdleTimeout)
	e.u16(r.HardTimeout)
	e.u64(r.Packets)
	e.u64(r.Bytes)
	e.matchOf(r.Flow)
}

func (d *decoder) flowRemoved() Message {
	var r FlowRemoved
	r.Cookie, r.Priority, r.Reason, r.Table = d.u64(), d.u16(), FlowRemovedReason(d.u8()), d.u8()
	r.Duration = d.duration()
	r.IdleTimeout, r.HardTimeout = d.u16(), d.u16()
	r.Packets, r.Bytes = d.u64(), d.u64()
	r.readMatch(d.matchBody().b)
	return r
}

// The masks of a SetAsync come in pairs, for controllers that may change the switch and for those that
// may not. The first of each pair applies here.
func (a SetAsync) encodeBody(e *encoder) {
	for _, mask := range [...]uint32{a.PacketIn, a.PortStatus, a.FlowRemoved} {
		e.u32(mask)
		e.u32(0)
	}
}

func (d *decoder) setAsync() Message {
	var a SetAsync
	for _, mask := range [...]*uint32{&a.PacketIn, &a.PortStatus, &a.FlowRemoved} {
		*mask = d.u32()
		d.skip(4)
	}
	return a
}
