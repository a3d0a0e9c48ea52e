package openflow

import (
	"bytes"
	"fmt"
	"time"
)

// DefaultPriority is the priority that ovs-ofctl does not print.
const DefaultPriority = 0x8000

// Flow is an entry of a flow table. It applies to packets that fit Match and no flow of higher
// priority in the table: they are metered, then processed by Actions, and continue in table Goto.
type Flow struct {
	Table        uint8
	Priority     uint16
	Cookie       uint64
	IdleTimeout  uint16 // seconds; 0: none
	HardTimeout  uint16
	Flags        FlowFlags
	Match        Match
	Meter        uint32 // 0: none
	Actions      []Action
	ClearActions bool // clear the action set
	WriteActions []Action
	Metadata     uint64 // written under MetadataMask
	MetadataMask uint64
	Goto         uint8 // 0: none; no flow can go to table 0
	Raw          *Raw  // nil if the fields above describe the flow completely
}

// Raw holds the encoding of the parts of a flow in the switch that Flow cannot express. A flow with
// Raw can be compared, printed, deleted and written back, so that a flow that another controller added
// does not cause errors.
type Raw struct {
	Match        []byte // nil: Flow.Match is the match
	Instructions []byte // nil: the other fields say what the flow does
	Err          error  // what could not be decoded
}

// FlowFlags are the flags of a flow.
type FlowFlags uint16

// Flags of flows.
const (
	FlowSendRemoved FlowFlags = 1 << iota // send a FlowRemoved message when the flow is removed
	FlowCheckOverlap
	FlowResetCounts
	FlowNoPacketCounts
	FlowNoByteCounts
)

// MatchKey identifies the flow in a switch, which holds at most one flow with a given table, priority
// and match.
func (f Flow) MatchKey() string {
	var room [192]byte // large enough for most matches
	e := encoder{b: room[:0]}
	e.u8(f.Table)
	e.u16(f.Priority)
	e.matchFields(f)
	if e.err != nil { // no switch accepts this match, but its key must differ from that of every other flow
		return string(e.b) + f.Match.String()
	}
	return string(e.b)
}

// SameEffect reports whether two flows with the same MatchKey are interchangeable: same instructions,
// cookie, flags and timeouts.
func (f Flow) SameEffect(g Flow) bool {
	return f.Table == g.Table && f.Priority == g.Priority && f.Cookie == g.Cookie &&
		f.IdleTimeout == g.IdleTimeout && f.HardTimeout == g.HardTimeout && f.Flags == g.Flags &&
		f.Meter == g.Meter && f.Goto == g.Goto && f.ClearActions == g.ClearActions &&
		f.Metadata&f.MetadataMask == g.Metadata&g.MetadataMask && f.MetadataMask == g.MetadataMask &&
		equalActions(f.Actions, g.Actions) && equalActions(f.WriteActions, g.WriteActions) &&
		bytes.Equal(f.rawInstructions(), g.rawInstructions())
}

func (f Flow) rawMatch() []byte {
	if f.Raw == nil {
		return nil
	}
	return f.Raw.Match
}

func (f Flow) rawInstructions() []byte {
	if f.Raw == nil {
		return nil
	}
	return f.Raw.Instructions
}

// Equal reports whether two flows are the same to a switch.
func (f Flow) Equal(g Flow) bool { return f.SameEffect(g) && f.MatchKey() == g.MatchKey() }

// FlowStats is a flow read from the switch.
type FlowStats struct {
	Flow
	Packets, Bytes uint64
	Duration       time.Duration
}

// FlowCommand is the command of a FlowMod.
type FlowCommand uint8

// Commands. ADD replaces the flow with the same priority and match, whose counters are kept unless
// FlowResetCounts is set. The strict commands affect only the flow with that priority and match; the
// others every flow that is at least as specific.
const (
	FlowAdd FlowCommand = iota
	FlowModify
	FlowModifyStrict
	FlowDelete
	FlowDeleteStrict
)

// FlowMod changes a flow table. TableAll is for deletions only.
type FlowMod struct {
	Command    FlowCommand
	Flow       Flow
	CookieMask uint64 // modify, delete: only flows whose cookie equals Cookie in these bits
	OutPort    uint32 // delete: only flows that output to it; 0: any
	OutGroup   uint32 // likewise
}

// TableAll stands for every table in deletions and requests.
const TableAll uint8 = 0xff

// String names the message in errors.
func (m FlowMod) String() string {
	return fmt.Sprintf("flow %s: %s", name(m.Command, flowCommands), m.Flow)
}

var flowCommands = []string{"add", "modify", "modify_strict", "delete", "delete_strict"}

// name returns the name of an enumerated value, or its number if it has none.
func name[N ~uint8 | ~uint16 | ~uint32](n N, names []string) string {
	if int(n) < len(names) && names[n] != "" {
		return names[n]
	}
	return fmt.Sprint(uint64(n))
}
