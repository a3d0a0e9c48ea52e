package openflow

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// FlowEntry is a flow of a reply that is not decoded yet. A reader of hundreds of thousands of flows
// that looks for the few that differ compares AppendKey and AppendEffect, and decodes only those few.
//
// An entry borrows the bytes of the reply: it is valid until the function to which it was passed
// returns.
type FlowEntry struct {
	Table          uint8
	Priority       uint16
	Cookie         uint64
	IdleTimeout    uint16 // seconds; 0: none
	HardTimeout    uint16
	Flags          FlowFlags
	Packets, Bytes uint64
	Duration       time.Duration

	match, instructions []byte
}

// AppendKey appends the flow's MatchKey. If the switch reports the fields of a match in another order
// than ours, the key differs, while that of the decoded flow does not.
func (f FlowEntry) AppendKey(b []byte) []byte {
	b = append(b, f.Table, byte(f.Priority>>8), byte(f.Priority))
	return append(b, f.match...)
}

// AppendEffect appends the flow's Effect. If it differs from that of another flow, the two may still
// have the same effect in another encoding: use SameEffect of the decoded flows.
func (f FlowEntry) AppendEffect(b []byte) []byte {
	b = appendEffectHead(b, Flow{Cookie: f.Cookie, IdleTimeout: f.IdleTimeout, HardTimeout: f.HardTimeout, Flags: f.Flags})
	return append(b, f.instructions...)
}

// effectHead is the number of bytes before the instructions in an Effect.
const effectHead = 8 + 2 + 2 + 2

func appendEffectHead(b []byte, f Flow) []byte {
	e := encoder{b: b}
	e.u64(f.Cookie)
	e.u16(f.IdleTimeout)
	e.u16(f.HardTimeout)
	e.u16(uint16(f.Flags))
	return e.b
}

// Effect returns all of a flow except its table, priority and match, as bytes: what SameEffect
// compares. Two flows with the same Effect have the same effect. It needs less memory than the flow.
func (f Flow) Effect() (string, error) {
	e := &encoder{b: appendEffectHead(make([]byte, 0, 128), f)}
	e.instructions(f)
	if e.err != nil {
		return "", fmt.Errorf("flow %s: %w", f, e.err)
	}
	return string(e.b), nil
}

// Flow decodes the entry. What cannot be decoded is in Raw.
func (f FlowEntry) Flow() FlowStats {
	s := FlowStats{Packets: f.Packets, Bytes: f.Bytes, Duration: f.Duration, Flow: Flow{
		Table: f.Table, Priority: f.Priority, Cookie: f.Cookie,
		IdleTimeout: f.IdleTimeout, HardTimeout: f.HardTimeout, Flags: f.Flags,
	}}
	s.readMatch(f.match)
	s.readInstructions(f.instructions)
	return s
}

// readMatch decodes a match, or stores it undecoded in Raw.
func (f *Flow) readMatch(b []byte) {
	d := &decoder{b: b}
	if f.Match = d.fieldList(); d.err != nil {
		f.Match = nil
		f.raw(fmt.Errorf("match: %w", d.err)).Match = slices.Clone(b)
	}
}

// readInstructions decodes instructions, or stores them undecoded in Raw.
func (f *Flow) readInstructions(b []byte) {
	d, understood := &decoder{b: b}, *f
	if d.instructions(&understood); d.err != nil {
		f.raw(d.err).Instructions = bytes.Clone(b)
		return
	}
	*f = understood
}

// raw records that a part of the flow could not be decoded.
func (f *Flow) raw(err error) *Raw {
	if f.Raw == nil {
		f.Raw = &Raw{Err: err}
	}
	return f.Raw
}

// flowEntry reads one entry of a flow reply, which must fill the decoder.
func (d *decoder) flowEntry() FlowEntry {
	var f FlowEntry
	d.skip(2)
	f.Table = d.u8()
	d.skip(1)
	f.Duration = d.duration()
	f.Priority, f.IdleTimeout, f.HardTimeout, f.Flags = d.u16(), d.u16(), d.u16(), FlowFlags(d.u16())
	d.skip(4)
	f.Cookie, f.Packets, f.Bytes = d.u64(), d.u64(), d.u64()
	f.match = d.matchBody().b
	f.instructions = d.take(len(d.b))
	return f
}

func (d *decoder) flowStats() FlowStats { return d.flowEntry().Flow() }
