package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// TableNamed is the table of a number, as it is called by people; false: there is none.
func TableNamed(id uint8) (Table, bool) {
	for _, t := range Tables() {
		if t.ID == id {
			return t, true
		}
	}
	return Table{}, false
}

// GroupLeadsTo is the table in which all packets go on behind a group; false: it depends on them, or there is no such group.
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

// IsOnlyAsked tells whether packets come back from a table to the flow that had them look there.
func IsOnlyAsked(id uint8) bool {
	t, known := TableNamed(id)
	return known && t.Miss == t.ID && id != tableDrop
}

// AsksTracker tells whether flows of a table compare with what the connection tracker knows of the first packet of a connection.
func AsksTracker(table uint8) bool { return table == tableKnown }

// EndsJudgement tells whether no tier is asked behind the flow of a rule in a table: the rule allows, and is final.
func EndsJudgement(table uint8, r Rule) bool {
	return r.Allow && (table == tableFirstOut || table == tableFirstIn)
}

// IsTooBig tells whether a flow is for packets that are larger than the way to other nodes carries.
func IsTooBig(table uint8, match string) bool {
	return table == tableOutput && match == (openflow.Match{regTooBig.is(1)}).String()
}

// DropReasonOf is why packets are thrown away by the flow of table DROP with this match, as the switch prints
// it; false: it is none of those.
func DropReasonOf(table uint8, match string) (DropReason, bool) {
	for _, r := range Reasons() {
		if table == tableDrop && match == (openflow.Match{regReason.is(uint32(r.ID))}).String() {
			return r, true
		}
	}
	return DropReason{}, false
}
