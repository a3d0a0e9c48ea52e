package openflow

import (
	"encoding/binary"
	"fmt"
)

// PackedFlow is a flow as the bytes of its MatchKey and its Effect. It takes a third of the memory of
// a Flow, is compared as strings and is sent without encoding; use it to store hundreds of thousands
// of flows.
type PackedFlow struct{ Key, Effect string }

// Pack packs a flow. It returns an error if the flow cannot be encoded.
func Pack(f Flow) (PackedFlow, error) {
	if err := f.Match.Canonical().check(); err != nil && f.rawMatch() == nil {
		return PackedFlow{}, fmt.Errorf("flow %s: %w", f, err)
	}
	effect, err := f.Effect()
	return PackedFlow{Key: f.MatchKey(), Effect: effect}, err
}

// Offsets of a MatchKey's parts.
const (
	keyPriority = 1
	keyMatch    = 3
)

// Table returns the flow's table.
func (p PackedFlow) Table() uint8 { return p.Key[0] }

// Priority returns the flow's priority.
func (p PackedFlow) Priority() uint16 {
	return binary.BigEndian.Uint16([]byte(p.Key[keyPriority:keyMatch]))
}

// Cookie returns the flow's cookie.
func (p PackedFlow) Cookie() uint64 { return binary.BigEndian.Uint64([]byte(p.Effect[:8])) }

// Flow unpacks the flow.
func (p PackedFlow) Flow() Flow { return p.Entry().Flow().Flow }

// Entry returns the flow as it would be in a reply of the switch.
func (p PackedFlow) Entry() FlowEntry {
	head := &decoder{b: []byte(p.Effect[:effectHead])}
	f := FlowEntry{Table: p.Table(), Priority: p.Priority(), Cookie: head.u64()}
	f.IdleTimeout, f.HardTimeout, f.Flags = head.u16(), head.u16(), FlowFlags(head.u16())
	f.match, f.instructions = []byte(p.Key[keyMatch:]), []byte(p.Effect[effectHead:])
	return f
}

// PackedFlowMod is a FlowMod of a packed flow.
type PackedFlowMod struct {
	Command FlowCommand // FlowAdd or FlowDeleteStrict
	Flow    PackedFlow
}

func (PackedFlowMod) messageType() Type { return TypeFlowMod }

// String names the message in errors.
func (m PackedFlowMod) String() string {
	return FlowMod{Command: m.Command, Flow: m.Flow.Flow()}.String()
}

func (m PackedFlowMod) encodeBody(e *encoder) {
	entry := m.Flow.Entry()
	FlowMod{Command: m.Command, Flow: Flow{
		Table: entry.Table, Priority: entry.Priority, Cookie: entry.Cookie,
		IdleTimeout: entry.IdleTimeout, HardTimeout: entry.HardTimeout, Flags: entry.Flags,
		Raw: &Raw{Match: entry.match, Instructions: entry.instructions},
	}}.encodeBody(e)
}
