package pipeline

// The tables: their numbers are their indexes in this list. A packet passes those from GUARD to OUTPUT in this
// order. Those after DROP were added later, so that the others keep their numbers over an upgrade; the drawing
// in the package comment shows where a packet passes them. goto_table accepts larger numbers only: where a
// packet has to go back, backTo resubmits it.
const (
	tableGuard uint8 = firstTable + iota
	tableNeighbour
	tableRouter
	tableSource
	tableDest
	tablePolicy
	tableForward
	tableAnswer
	tableReply
	tableNDReply
	tableOutput
	tableDrop
	tableAffinity
	tableTrack
	tableKnown
	tableFirstOut
	tablePolicyOut
	tableLastOut
	tableFirstIn
	tablePolicyIn
	tableLastIn
	tableAdmit
	tableEpoch
	tablePeer
	tableOverheard
	tableBegun
	tableAdmitted
	tableAnswered
	tableCounted
	tableRelated
	tableDeparted
	tableSlowed
	tableAllPorts
)

// Every packet starts in table 0.
const tableClassify uint8 = 0

// firstTable is where the tables after table 0 begin. The layout before this one had tables 1 to 14. As only
// table 0 is common to both, a switch can have both at once: an upgrade writes the new tables beside the old
// ones, replaces the few flows of table 0, and then removes those that are not reached any more. A layout that
// moves tables has to begin elsewhere again.
const firstTable = 20

// Table describes a table for dumps, documentation and tests.
type Table struct {
	ID   uint8
	Name string
	Miss uint8  // table of packets that no flow matches; itself: none, the table only returns to a resubmit
	Why  Reason // if that is tableDrop
	Does string
}

// Tables returns all tables in the order of their numbers, CLASSIFY first.
func Tables() []Table {
	return []Table{
		{tableClassify, "CLASSIFY", tableDrop, reasonNobody, "The ingress port gives the sender's VRF and network: a local port also the sender's group; the tunnel by the VNI, the uplink by the VLAN."},
		{tableGuard, "GUARD", tableDrop, reasonNobody, "Anti-spoofing: a local port may only send as its own endpoint."},
		{tableNeighbour, "NEIGHBOUR", tableDrop, reasonNoNeighbour, "ARP requests and IPv6 neighbour solicitations of local endpoints: finds the target."},
		{tableRouter, "ROUTER", tableDest, 0, "Marks packets to the MAC of the gateway of the sender's network as to be routed. Translates packets of known connections to a service."},
		{tableSource, "SOURCE", tableDest, 0, "From the uplink: finds the group of the sender by VRF and address, or else by network and MAC. From the host and the name server: finds the network of the receiver. Counts packets to the provider of a service."},
		{tableDest, "DEST", tablePolicy, 0, "Finds the receiver by VRF and address, or by network and MAC: its group, network, MAC, and output port. Chooses the provider of a service. Recognises pings for a gateway, and packets to all members of a bridged network."},
		{tablePolicy, "POLICY", tableForward, 0, "Applies the rules of groups. A packet that no rule matches is allowed."},
		{tableForward, "FORWARD", tableDrop, reasonOtherNetwork, "Routes packets that are to be routed. All others stay in their network, unchanged."},
		{tableAnswer, "ANSWER", tableDrop, reasonNobody, "Packets that the switch answers itself pass the meter of their port; queries for the name server pass another meter."},
		{tableReply, "REPLY", tableDrop, reasonNoNeighbour, "Turns a request into its reply: ARP, neighbour discovery, ping."},
		{tableNDReply, "ND_REPLY", tableDrop, reasonNoNeighbour, "Completes a neighbour advertisement."},
		{tableOutput, "OUTPUT", tableDrop, reasonWrongMAC, "The only table with output: to a local port, into the tunnel to one node or to several, or back. Packets of a service's provider are sent to conntrack, to get the service's address as source."},
		{tableDrop, "DROP", tableDrop, 0, "Counts dropped packets, by reason."},
		{tableAffinity, "AFFINITY", tableAffinity, 0, "Learned flows: the provider of each client of a service with session affinity. Visited from DEST, which continues."},
		{tableTrack, "TRACK", tableDrop, reasonNotAdmitted, "Sends packets from and to endpoints of this node to conntrack, if connections of the endpoint are tracked and policies apply to the packet."},
		{tableKnown, "KNOWN", tableDrop, reasonNotAdmitted, "Packets of a connection that was admitted in the present epoch go back to FORWARD. A reply is judged like the connection that it belongs to."},
		{tableFirstOut, "FIRST_OUT", tablePolicyOut, 0, "The first tier, of the sender: rules in their order."},
		{tablePolicyOut, "POLICY_OUT", tableLastOut, 0, "Policies that isolate the sender, and what they allow."},
		{tableLastOut, "LAST_OUT", tableFirstIn, 0, "The last tier, of the sender."},
		{tableFirstIn, "FIRST_IN", tablePolicyIn, 0, "The first tier, of the receiver."},
		{tablePolicyIn, "POLICY_IN", tableLastIn, 0, "Policies that isolate the receiver, and what they allow."},
		{tableLastIn, "LAST_IN", tableAdmit, 0, "The last tier, of the receiver."},
		{tableAdmit, "ADMIT", tableDrop, reasonNotAdmitted, "Commits the connection to conntrack as admitted; continues in ADMITTED."},
		{tableEpoch, "EPOCH", tableEpoch, 0, "Sets the present epoch. Visited from CLASSIFY, before all else."},
		{tablePeer, "PEER", tableDrop, reasonOtherNode, "From the tunnel: checks that the sender is an endpoint of the sending node, and sets its group; continues in DEST."},
		{tableOverheard, "OVERHEARD", tableOverheard, 0, "Sends to the agent a copy of DNS answers to endpoints of this node whose rules have domain names. Visited from TRACK, which continues."},
		{tableBegun, "BEGUN", tableSource, 0, "Checks that conntrack has committed a new connection to a service: its table may be full."},
		{tableAdmitted, "ADMITTED", tableDrop, reasonNotAdmitted, "Conntrack has committed the connection: back to FORWARD."},
		{tableAnswered, "ANSWERED", tableOutput, 0, "A packet of a service's provider has got the service's address as source: it is counted, and goes back to FORWARD or OUTPUT, from which it came."},
		{tableCounted, "COUNTED", tableCounted, 0, "Counts the packets of a provider for a port of a service. Deletes the conntrack entry of an ended connection when the client begins another one from the same port. Visited from ANSWERED and KNOWN, which continue."},
		{tableRelated, "RELATED", tableOutput, 0, "An ICMPv6 error about a packet to a service gets the service's address; back to OUTPUT."},
		{tableDeparted, "DEPARTED", tableDeparted, 0, "No packet comes here. The flows have the addresses of deleted endpoints until their conntrack entries are deleted, so that an agent that was killed meanwhile continues with that."},
		{tableSlowed, "SLOWED", tableDrop, reasonNobody, "Replaces CLASSIFY for a local port that is slowed down, after its meter: its packets have made too many masks in the datapath."},
		{tableAllPorts, "ALL_PORTS", tableDrop, reasonNobody, "Requests of local endpoints that the switch answers pass a meter of all ports, after that of their port: from GUARD to NEIGHBOUR, from ANSWER to REPLY."},
	}
}

// Priorities. If two flows of a table can match one packet, the names show which wins.
const (
	priorityMiss    uint16 = 1
	priorityFlood   uint16 = 5  // packets without a receiver in a bridged network: flooded
	priorityOther   uint16 = 10 // the rest of what a more exact flow selects
	priorityNotIP   uint16 = 20 // not IP; priorityIP is for IP
	priorityIP      uint16 = 30
	priorityNear    uint16 = 50   // a receiver that is not found by MAC
	priorityExact   uint16 = 100  // one object, one kind of packet
	priorityChecked uint16 = 101  // of these, packets whose size is checked
	priorityTurned  uint16 = 102  // a reply of or to a group whose rules end the evaluation
	priorityOwn     uint16 = 103  // an address of the receiver that the MAC identifies
	priorityRefuse  uint16 = 105  // what a flow for all of an object's packets would let pass
	priorityOutside uint16 = 106  // what such a flow would refuse leaves by the host
	priorityInside  uint16 = 107  // and those of them that do not
	priorityHost    uint16 = 108  // except for the host itself
	priorityAnswer  uint16 = 109  // replies to a client that came in by a host
	priorityExcept  uint16 = 110  // an exception to the above
	priorityAsking  uint16 = 112  // a solicitation is metered before its target is matched
	priorityService uint16 = 115  // fragments and errors of a provider
	priorityChoose  uint16 = 116  // a client of a service is known to have no provider
	priorityHairpin uint16 = 120  // what a provider sends to itself
	priorityKept    uint16 = 121  // a client has a provider
	priorityVisit   uint16 = 125  // endpoints of other tenants and a service
	priorityExempt  uint16 = 130  // packets to which no tier applies
	priorityGuard   uint16 = 200  // before everything else in its table
	priorityRestore uint16 = 201  // above that: it continues elsewhere
	priorityEntered uint16 = 205  // further checks of a guard for clients that came in by the host
	priorityTrunk   uint16 = 210  // what a guard must not stop: tags, at the uplink
	priorityTooBig  uint16 = 220  // packets that are too big are not forwarded
	priorityTracked uint16 = 2000 // above all else in FORWARD: to be evaluated by tiers first
	priorityEnded   uint16 = 2001 // above that: connections to a service that is gone
	// Rules have priorityRules and twice their own, above all priorities of any earlier layout in their table:
	// if flows of both are there, these decide (books.go of the programmer).
	priorityRules uint16 = 300
	priorityLink  uint16 = 65000 // no rule applies to what neighbours of a link need
	priorityStray uint16 = 65535 // packets that are on no path
)
