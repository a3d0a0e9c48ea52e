package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

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

// DropFlows selects the flows that count what is thrown away.
func DropFlows() openflow.FlowFilter {
	return openflow.FlowFilter{OneTable: true, Table: tableDrop, Cookie: cookie.New(cookie.Base, ""), CookieMask: ^uint64(0)}
}

// DroppedBy is the reason for which a flow of DropFlows throws away; 0: none.
func DroppedBy(f openflow.Flow) Reason { return Reason(regReason.of(f.Match)) }
