package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// Counter is something that the counters of an object's flows add up to.
type Counter uint8

// Counters. What an endpoint received is what others sent to it; the switch's
// own answers, to ARP and the like, are not among it.
const (
	CountsSent     Counter = iota // what a local endpoint sent, whatever became of it
	CountsReceived                // what a local endpoint received
	CountsDecided                 // what a rule decided about
)

// CounterFlows selects the flows of an object that count something, to ask the
// switch for their sum.
func CounterFlows(object Key, what Counter) openflow.FlowFilter {
	table := map[Counter]uint8{CountsSent: tableClassify, CountsReceived: tableOutput, CountsDecided: tablePolicy}
	return openflow.FlowFilter{OneTable: true, Table: table[what], Cookie: Cookie(object), CookieMask: ^uint64(0)}
}
