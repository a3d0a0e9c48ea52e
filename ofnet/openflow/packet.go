package openflow

import "fmt"

// PacketIn is a packet the switch sends to us.
type PacketIn struct {
	Reason   PacketInReason
	Table    uint8
	Cookie   uint64
	TotalLen uint16 // of the packet, if Data is only its beginning
	Match    Match  // in_port, tunnel, metadata, registers
	Data     []byte
}

// PacketInReason says why a packet was sent to us.
type PacketInReason uint8

// Reasons. The zero value of Controller.Reason is that of a table miss, as on the wire.
const (
	ReasonNoMatch PacketInReason = iota
	ReasonAction
	ReasonInvalidTTL
)

// InPort returns the port the packet came in by.
func (p PacketIn) InPort() uint32 {
	port, _ := p.Match.exact(FieldInPort)
	return uint32(port)
}

// String names the message in logs.
func (p PacketIn) String() string {
	return fmt.Sprintf("packet-in table=%d cookie=%#x %s (%d bytes)", p.Table, p.Cookie, p.Match, len(p.Data))
}

// PacketOut makes the switch do actions on a packet of ours.
type PacketOut struct {
	InPort  uint32 // 0: PortController
	Actions []Action
	Data    []byte
}

// String names the message in errors.
func (p PacketOut) String() string {
	return fmt.Sprintf("packet-out of %d bytes actions=%s", len(p.Data), actionList(p.Actions))
}

// FlowRemoved tells that a flow with FlowSendRemoved is gone. It says which
// one, but not what its actions were.
type FlowRemoved struct {
	FlowStats
	Reason FlowRemovedReason
}

// FlowRemovedReason says why a flow is gone.
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
