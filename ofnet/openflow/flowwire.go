package openflow

import "fmt"

// Types of instructions.
const (
	insGoto          = 1
	insWriteMetadata = 2
	insWriteActions  = 3
	insApplyActions  = 4
	insClearActions  = 5
	insMeter         = 6
)

const noBufferID = 0xffffffff

// orAny maps the zero of an optional port or group to the "any" of the wire.
func orAny(n uint32) uint32 {
	if n == 0 {
		return PortAny
	}
	return n
}

// orZero is the inverse of orAny.
func orZero(n uint32) uint32 {
	if n == PortAny {
		return 0
	}
	return n
}

func (m FlowMod) messageType() Type { return TypeFlowMod }

func (m FlowMod) encodeBody(e *encoder) {
	f := m.Flow
	e.u64(f.Cookie)
	e.u64(m.CookieMask)
	e.u8(f.Table)
	e.u8(uint8(m.Command))
	e.u16(f.IdleTimeout)
	e.u16(f.HardTimeout)
	e.u16(f.Priority)
	e.u32(noBufferID)
	e.u32(orAny(m.OutPort))
	e.u32(orAny(m.OutGroup))
	e.u16(uint16(f.Flags))
	e.zeros(2)
	e.matchOf(f)
	if !m.deletes() {
		e.instructions(f)
	}
}

// deletes reports whether the message only selects flows. The switch would validate instructions in
// such a message, so they are not sent.
func (m FlowMod) deletes() bool { return m.Command == FlowDelete || m.Command == FlowDeleteStrict }

// instructions appends what a flow does.
func (e *encoder) instructions(f Flow) {
	e.raw(f.rawInstructions())
	if f.Meter != 0 {
		e.instruction(insMeter, func() { e.u32(f.Meter) })
	}
	if len(f.Actions) > 0 {
		e.instruction(insApplyActions, func() { e.zeros(4); e.actions(f.Actions) })
	}
	if f.ClearActions {
		e.instruction(insClearActions, func() { e.zeros(4) })
	}
	if len(f.WriteActions) > 0 {
		e.instruction(insWriteActions, func() { e.zeros(4); e.actions(f.WriteActions) })
	}
	if f.MetadataMask != 0 {
		e.instruction(insWriteMetadata, func() {
			e.zeros(4)
			e.u64(f.Metadata & f.MetadataMask)
			e.u64(f.MetadataMask)
		})
	}
	if f.Goto != 0 {
		e.instruction(insGoto, func() { e.u8(f.Goto); e.zeros(3) })
	}
}

func (e *encoder) instruction(kind uint16, body func()) {
	start := len(e.b)
	e.u16(kind)
	e.u16(0)
	body()
	e.length(start+2, start)
}

// instructions reads what a flow does, to the end.
func (d *decoder) instructions(f *Flow) {
	for d.more() {
		part := d.element(2)
		kind := part.u16()
		part.skip(2)
		part.instruction(kind, f)
		d.join(part, fmt.Sprintf("instruction %d", kind))
	}
}

func (d *decoder) instruction(kind uint16, f *Flow) {
	switch kind {
	case insMeter:
		f.Meter = d.u32()
	case insApplyActions:
		d.skip(4)
		f.Actions = d.actions(0)
	case insClearActions:
		f.ClearActions = true
	case insWriteActions:
		d.skip(4)
		f.WriteActions = d.actions(0)
	case insWriteMetadata:
		d.skip(4)
		f.Metadata, f.MetadataMask = d.u64(), d.u64()
	case insGoto:
		f.Goto = d.u8()
	default:
		d.fail("type is not known")
	}
}

// flowMod reads the body of a flow-mod.
func (d *decoder) flowMod() Message {
	var m FlowMod
	f := &m.Flow
	f.Cookie, m.CookieMask, f.Table, m.Command = d.u64(), d.u64(), d.u8(), FlowCommand(d.u8())
	f.IdleTimeout, f.HardTimeout, f.Priority = d.u16(), d.u16(), d.u16()
	d.skip(4)
	m.OutPort, m.OutGroup, f.Flags = orZero(d.u32()), orZero(d.u32()), FlowFlags(d.u16())
	d.skip(2)
	f.readMatch(d.matchBody().b)
	if does := d.take(len(d.b)); !m.deletes() {
		f.readInstructions(does)
	}
	return m
}
