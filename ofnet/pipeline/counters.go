package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// Counter is a sum over the counters of an object's flows.
type Counter uint8

// Counters. Received packets are those that others have sent; the switch's own answers, to ARP and
// the like, are not included.
const (
	CountsSent     Counter = iota // what a local endpoint sent, whether delivered or not
	CountsReceived                // what a local endpoint received
	CountsDecided                 // what a rule allowed or denied
)

// CounterFlows selects the flows of an object that count something, to get their sum from the switch.
func CounterFlows(object Key, what Counter) openflow.FlowFilter {
	table := map[Counter]uint8{CountsSent: tableClassify, CountsReceived: tableOutput, CountsDecided: tablePolicy}
	return openflow.FlowFilter{OneTable: true, Table: table[what], Cookie: Cookie(object), CookieMask: ^uint64(0)}
}

// DropFlows selects the flows that count dropped packets.
func DropFlows() openflow.FlowFilter {
	return openflow.FlowFilter{OneTable: true, Table: tableDrop, Cookie: cookie.New(cookie.Base, ""), CookieMask: ^uint64(0)}
}

// DroppedBy returns the reason for which a flow of DropFlows drops; 0: none.
func DroppedBy(f openflow.Flow) Reason { return Reason(regReason.of(f.Match)) }
