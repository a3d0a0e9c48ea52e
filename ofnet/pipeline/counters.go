package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// Counter is what the counter of a flow says about the flow's object.
type Counter uint8

// Counters. What an endpoint received is what others sent to it; the switch's
// own answers, to ARP and the like, are not among it.
const (
	CountsNothing  Counter = iota // to anybody but the switch
	CountsSent                    // what a local endpoint sent, whatever became of it
	CountsReceived                // what a local endpoint received
	CountsDecided                 // what a rule decided about
)

// CounterOf tells what a flow in a table counts, by its cookie. The counters of
// an object's flows that count the same add up.
func CounterOf(table uint8, c uint64) Counter {
	if !cookie.Ours(c) {
		return CountsNothing
	}
	switch class := cookie.ClassOf(c); {
	case class == cookie.Endpoint && table == tableClassify:
		return CountsSent
	case class == cookie.Endpoint && table == tableOutput:
		return CountsReceived
	case class == cookie.Policy && table == tablePolicy:
		return CountsDecided
	}
	return CountsNothing
}

// CounterFlows selects the flows of an object that count something, to ask the
// switch for their sum.
func CounterFlows(object Key, what Counter) openflow.FlowFilter {
	table := map[Counter]uint8{CountsSent: tableClassify, CountsReceived: tableOutput, CountsDecided: tablePolicy}
	return openflow.FlowFilter{OneTable: true, Table: table[what], Cookie: Cookie(object), CookieMask: ^uint64(0)}
}
