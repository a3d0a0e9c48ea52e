// Package hops has the JSON types of a packet trace: what the switch of one node does with a packet. Agents answer
// netmasters with them, and netmasters their clients.
package hops

// Ways in which a packet leaves a node.
const (
	Delivered = "delivered" // to an endpoint
	Answered  = "answered"  // by the switch itself
	Tunnel    = "tunnel"    // to another node
	Uplink    = "uplink"    // to the physical network
	Host      = "host"      // to the host, which leads on
	Dropped   = "dropped"
	Unknown   = "unknown" // a group or the agent decides, and the switch does not tell about it; or everybody in a network gets it
	Silent    = "silent"  // the node does not answer
)

// Hop is the way of a packet through the switch of one node.
type Hop struct {
	Node   string `json:"node"`
	Packet string `json:"packet"` // as the switch was asked about it
	Steps  []Step `json:"steps,omitempty"`
	Exit   string `json:"exit"`
	To     string `json:"to,omitempty"`   // endpoint or node that it leaves for
	Next   string `json:"next,omitempty"` // host of the node that goes on with it
	// Of a packet that is dropped: why, where, and whose flow says so.
	Reason string `json:"reason,omitempty"`
	Means  string `json:"means,omitempty"`
	Table  string `json:"table,omitempty"`
	Of     string `json:"of,omitempty"`
	Note   string `json:"note,omitempty"` // what else the switch says
}

// Step is a table that a packet meets.
type Step struct {
	Table string `json:"table"`
	Of    string `json:"of,omitempty"`    // whose flow matched; empty: of all packets
	Match string `json:"match,omitempty"` // what the flow matches
	Does  string `json:"does,omitempty"`
}
