package openflow

import (
	"fmt"
	"strings"
)

// String prints the flow exactly as
//
//	ovs-ofctl -O OpenFlow13 --no-stats --no-names dump-flows BRIDGE
//
// does: parts with their default value are omitted.
func (f Flow) String() string {
	var b strings.Builder
	attribute := func(given bool, format string, args ...any) {
		if given {
			fmt.Fprintf(&b, format+", ", args...)
		}
	}
	attribute(f.Cookie != 0, "cookie=%#x", f.Cookie)
	attribute(f.Table != 0, "table=%d", f.Table)
	attribute(f.IdleTimeout != 0, "idle_timeout=%d", f.IdleTimeout)
	attribute(f.HardTimeout != 0, "hard_timeout=%d", f.HardTimeout)
	for i, text := range flowFlagNames {
		if f.Flags&(1<<i) != 0 {
			b.WriteString(text + " ")
		}
	}
	var terms []string
	if f.Priority != DefaultPriority {
		terms = append(terms, fmt.Sprintf("priority=%d", f.Priority))
	}
	terms = append(terms, f.Match.Canonical().terms()...)
	if raw := f.rawMatch(); raw != nil {
		terms = append(terms, fmt.Sprintf("match=%x", raw))
	}
	if len(terms) > 0 {
		b.WriteString(strings.Join(terms, ",") + " ")
	}
	return b.String() + "actions=" + f.instructions()
}

var flowFlagNames = []string{"send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts"}

// instructions prints the instructions, in the order in which they are executed.
func (f Flow) instructions() string {
	if raw := f.rawInstructions(); raw != nil {
		return fmt.Sprintf("instructions=%x", raw)
	}
	var parts []string
	if f.Meter != 0 {
		parts = append(parts, fmt.Sprintf("meter:%d", f.Meter))
	}
	if len(f.Actions) > 0 {
		parts = append(parts, joinActions(f.Actions))
	}
	if f.ClearActions {
		parts = append(parts, "clear_actions")
	}
	if len(f.WriteActions) > 0 {
		parts = append(parts, "write_actions("+joinActions(f.WriteActions)+")")
	}
	if f.MetadataMask != 0 {
		parts = append(parts, "write_metadata:"+hexadecimal(number(f.Metadata), number(f.MetadataMask), 64))
	}
	if f.Goto != 0 {
		parts = append(parts, fmt.Sprintf("goto_table:%d", f.Goto))
	}
	if len(parts) == 0 {
		return "drop"
	}
	return strings.Join(parts, ",")
}
