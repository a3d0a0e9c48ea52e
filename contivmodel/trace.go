package contivmodel

// Trace is the way of a packet that an endpoint might send, as the switches of the nodes tell it. Nothing is sent.
type Trace struct {
	From     string `json:"from"` // as asked for
	To       string `json:"to"`
	Protocol string `json:"protocol"`         // tcp, udp, sctp or icmp
	Port     int    `json:"port"`             // of no meaning with icmp
	Source   string `json:"source,omitempty"` // address that the packet says it comes from, if not the sender's own
	Hops     []Hop  `json:"hops"`             // the node of the sender, and that of the receiver if the packet gets there
}

// Ways in which a packet leaves a node.
const (
	ExitDelivered = "delivered" // to an endpoint
	ExitAnswered  = "answered"  // by the switch itself
	ExitTunnel    = "tunnel"    // to another node
	ExitUplink    = "uplink"    // to the physical network
	ExitHost      = "host"      // to the host, which leads on
	ExitDropped   = "dropped"
	ExitUnknown   = "unknown" // a group or the agent decides, and the switch does not tell about it; or everybody in a network gets it
)

// Hop is the way of a packet through the switch of one node.
type Hop struct {
	Node   string      `json:"node"`
	Packet string      `json:"packet"` // as the switch was asked about it
	Steps  []TraceStep `json:"steps,omitempty"`
	Exit   string      `json:"exit"`
	To     string      `json:"to,omitempty"`   // endpoint or node that it leaves for
	Next   string      `json:"next,omitempty"` // host of the node that goes on with it
	// Of a packet that is dropped: why, where, and whose flow says so.
	Reason string `json:"reason,omitempty"`
	Means  string `json:"means,omitempty"`
	Table  string `json:"table,omitempty"`
	Of     string `json:"of,omitempty"`
	Note   string `json:"note,omitempty"` // what else the switch says
}

// TraceStep is a table that a packet meets.
type TraceStep struct {
	Table string `json:"table"`
	Of    string `json:"of,omitempty"`    // whose flow matched; empty: of all packets
	Match string `json:"match,omitempty"` // what the flow matches
	Does  string `json:"does,omitempty"`
}
