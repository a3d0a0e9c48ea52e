package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// TableNamed returns the table of a number; ok is false if there is none.
func TableNamed(id uint8) (Table, bool) {
	for _, t := range Tables() {
		if t.ID == id {
			return t, true
		}
	}
	return Table{}, false
}

// GroupLeadsTo returns the table in which all packets continue after a group; false if it depends on the
// packet, or there is no such group.
func GroupLeadsTo(group uint32) (table uint8, always bool) {
	switch group {
	case groupAnswer:
		return tableReply, true
	case groupAsked:
		return tableNeighbour, true
	case groupSlowed:
		return tableSlowed, true
	}
	return 0, false
}

// IsOnlyAsked reports whether packets return from a table to the flow that resubmitted them there.
func IsOnlyAsked(id uint8) bool {
	t, known := TableNamed(id)
	return known && t.Miss == t.ID && id != tableDrop
}

// AsksTracker reports whether flows of a table match the connection tracker's tuple of the first packet of a
// connection.
func AsksTracker(table uint8) bool { return table == tableKnown }

// EndsJudgement reports whether no tier is applied after the flow of a rule in a table: the rule allows, and is final.
func EndsJudgement(table uint8, r Rule) bool {
	return r.Allow && (table == tableFirstOut || table == tableFirstIn)
}

// IsTooBig reports whether a flow is for packets that are larger than the MTU to other nodes.
func IsTooBig(table uint8, match string) bool {
	return table == tableOutput && match == (openflow.Match{regTooBig.is(1)}).String()
}

// DropReasonOf returns the reason of the flow of table DROP with this match, as the switch prints it;
// false if it is none of those.
func DropReasonOf(table uint8, match string) (DropReason, bool) {
	for _, r := range Reasons() {
		if table == tableDrop && match == (openflow.Match{regReason.is(uint32(r.ID))}).String() {
			return r, true
		}
	}
	return DropReason{}, false
}
