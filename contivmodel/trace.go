package contivmodel

import "github.com/contiv/netplugin/contivmodel/hops"

// Trace is the way of a packet that an endpoint might send, as the switches of the nodes tell it. Nothing is sent.
type Trace struct {
	From     string     `json:"from"` // as asked for
	To       string     `json:"to"`
	Protocol string     `json:"protocol"`         // tcp, udp, sctp or icmp
	Port     int        `json:"port"`             // of no meaning with icmp
	Source   string     `json:"source,omitempty"` // address that the packet says it comes from, if not the sender's own
	Hops     []hops.Hop `json:"hops"`             // the node of the sender, and that of the receiver if the packet gets there
}
