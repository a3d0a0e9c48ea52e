package contivmodel

import "github.com/contiv/netplugin/contivmodel/hops"

// Trace is the path of a packet that an endpoint might send, as reported by the switches of the nodes. Nothing is
// sent.
type Trace struct {
	From     string     `json:"from"` // as in the request
	To       string     `json:"to"`
	Protocol string     `json:"protocol"`         // tcp, udp, sctp or icmp
	Port     int        `json:"port"`             // ignored for icmp
	Source   string     `json:"source,omitempty"` // claimed source address, if not the sender's own
	Hops     []hops.Hop `json:"hops"`             // the node of the sender, and that of the receiver if the packet gets there
}
