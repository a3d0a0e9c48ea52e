package openflow

import (
	"bytes"
	"fmt"
	"time"
)

// DefaultPriority is the one that ovs-ofctl does not print.
const DefaultPriority = 0x8000

// Flow is an entry of a flow table: packets that look like Match, and do so
// to no flow of higher priority in the table, are metered, then get Actions,
// and go on in table Goto.
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
	ClearActions bool // empty the action set
	WriteActions []Action
	Metadata     uint64 // written under MetadataMask
	MetadataMask uint64
	Goto         uint8 // 0: none; a packet can't go back to table 0
	Raw          *Raw  // nil: the fields above say it all
}

// Raw is what of a flow in the switch the fields of Flow have no words for, in
// OpenFlow's own. A flow with Raw can be compared, printed, deleted and written
// back, so that one that somebody else added does not keep us from our work.
type Raw struct {
	Match        []byte // nil: Flow.Match is the match
	Instructions []byte // nil: the other fields say what the flow does
	Err          error  // what is not understood
}

// FlowFlags are the flags of a flow.
type FlowFlags uint16

// Flags of flows.
const (
	FlowSendRemoved FlowFlags = 1 << iota // tell us when it goes
	FlowCheckOverlap
	FlowResetCounts
	FlowNoPacketCounts
	FlowNoByteCounts
)

// MatchKey identifies the flow in a switch, which holds at most one flow with
// a table, priority and match.
func (f Flow) MatchKey() string {
	var room [192]byte // for most matches
	e := encoder{b: room[:0]}
	e.u8(f.Table)
	e.u16(f.Priority)
	e.matchFields(f)
	if e.err != nil { // no switch takes it, but it must not pass for another
		return string(e.b) + f.Match.String()
	}
	return string(e.b)
}

// SameEffect tells whether two flows with the same MatchKey are
// interchangeable: they do the same, under the same cookie and timeouts.
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

// Equal tells whether two flows are the same to a switch.
func (f Flow) Equal(g Flow) bool { return f.SameEffect(g) && f.MatchKey() == g.MatchKey() }

// FlowStats is a flow as found in the switch.
type FlowStats struct {
	Flow
	Packets, Bytes uint64
	Duration       time.Duration
}

// FlowCommand says what a FlowMod does.
type FlowCommand uint8

// Commands. ADD replaces the flow with that priority and match; its counters go
// on, unless FlowResetCounts is set. The strict ones touch the one flow with
// that priority and match; the others every flow that is at least as specific.
const (
	FlowAdd FlowCommand = iota
	FlowModify
	FlowModifyStrict
	FlowDelete
	FlowDeleteStrict
)

// FlowMod changes a flow table. TableAll is meant for deletions.
type FlowMod struct {
	Command    FlowCommand
	Flow       Flow
	CookieMask uint64 // modify, delete: only flows whose cookie agrees here
	OutPort    uint32 // delete: only flows that output there; 0: any
	OutGroup   uint32 // likewise
}

// TableAll stands for every table in deletions and requests.
const TableAll uint8 = 0xff

// String names the message in errors.
func (m FlowMod) String() string {
	return fmt.Sprintf("flow %s: %s", name(m.Command, flowCommands), m.Flow)
}

var flowCommands = []string{"add", "modify", "modify_strict", "delete", "delete_strict"}

// name looks an enumerated value up, and falls back to its number.
func name[N ~uint8 | ~uint16 | ~uint32](n N, names []string) string {
	if int(n) < len(names) && names[n] != "" {
		return names[n]
	}
	return fmt.Sprint(uint64(n))
}
