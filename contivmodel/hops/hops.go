// Package hops has the JSON types of a packet trace: what the switch of one node does with a packet. Agents send
// them to netmasters, and netmasters to their clients.
package hops

// Ways for a packet to leave a node.
const (
	Delivered = "delivered" // to an endpoint
	Answered  = "answered"  // by the switch itself
	Tunnel    = "tunnel"    // to another node
	Uplink    = "uplink"    // to the physical network
	Host      = "host"      // to the host, which forwards it
	Dropped   = "dropped"
	Unknown   = "unknown" // depends on a group or the agent, about which the switch reports nothing; or flooded in a network
	Silent    = "silent"  // the node does not answer
)

// Hop is the path of a packet through the switch of one node.
type Hop struct {
	Node   string `json:"node"`
	Packet string `json:"packet"` // as passed to the switch
	Steps  []Step `json:"steps,omitempty"`
	Exit   string `json:"exit"`
	To     string `json:"to,omitempty"`   // destination endpoint or node, or the service to which the host forwards it
	Next   string `json:"next,omitempty"` // host of the next node
	// Of a packet for a service, there: address and port of the provider.
	NextTo   string `json:"nextTo,omitempty"`
	NextPort int    `json:"nextPort,omitempty"`
	// Of a dropped packet: why, where, and the owner of the flow.
	Reason string `json:"reason,omitempty"`
	Means  string `json:"means,omitempty"`
	Table  string `json:"table,omitempty"`
	Of     string `json:"of,omitempty"`
	Note   string `json:"note,omitempty"` // further output of the switch
}

// Step is a table that a packet passes.
type Step struct {
	Table string `json:"table"`
	Of    string `json:"of,omitempty"`    // owner of the matching flow; empty: it is for all packets
	Match string `json:"match,omitempty"` // what the flow matches
	Does  string `json:"does,omitempty"`
}
