package pipeline

// The tables: their numbers are their places in this list. A packet meets those from GUARD to OUTPUT in this
// order. Those behind DROP were added later, so that the others keep their numbers over an upgrade; the drawing at the
// head of the package shows where a packet meets them. goto_table leads to larger numbers only: where a packet has to
// go back, backTo resubmits it.
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

// firstTable is where the tables behind table 0 begin. The layout before this
// one had tables 1 to 14. As no table but 0 is common to both, a switch can
// have both at once: an upgrade writes the new tables beside the old ones,
// exchanges the few flows of table 0, and then removes what nobody reaches any
// more. A layout that moves tables has to begin elsewhere again.
const firstTable = 20

// Table describes a table to people: dumps, documentation, tests.
type Table struct {
	ID   uint8
	Name string
	Miss uint8  // where a packet goes that no flow matched; itself: nowhere, the table is only asked
	Why  Reason // if that is tableDrop
	Does string
}

// Tables returns all tables in the order of their numbers, CLASSIFY first.
func Tables() []Table {
	return []Table{
		{tableClassify, "CLASSIFY", tableDrop, reasonNobody, "Where does it come from? A local port, a VNI of the tunnel or a VLAN of the uplink gives VRF and network, a port also the sender's group."},
		{tableGuard, "GUARD", tableDrop, reasonNobody, "A local port may only send as its own endpoint."},
		{tableNeighbour, "NEIGHBOUR", tableDrop, reasonNoNeighbour, "ARP requests and IPv6 neighbour solicitations of local endpoints: who is asked for?"},
		{tableRouter, "ROUTER", tableDest, 0, "Is it for the gateway of the sender's network? Then it is to be routed. What is for a service is translated."},
		{tableSource, "SOURCE", tableDest, 0, "From the uplink: finds the group of the sender by VRF and address, or else by network and MAC. From the host and the name server: finds whom it is for. Counts what is for the provider of a service."},
		{tableDest, "DEST", tablePolicy, 0, "Finds the receiver by VRF and address, or by network and MAC: its group, network, MAC, and the way out. Chooses the provider of a service. Recognises pings for a gateway, and what is for all of a bridged network."},
		{tablePolicy, "POLICY", tableForward, 0, "Applies the rules. What no rule mentions is allowed."},
		{tableForward, "FORWARD", tableDrop, reasonOtherNetwork, "Routes what is to be routed. Everything else stays in its network, unchanged."},
		{tableAnswer, "ANSWER", tableDrop, reasonNobody, "What the switch is going to answer itself passes the meter of its port, and what the name server is asked another one."},
		{tableReply, "REPLY", tableDrop, reasonNoNeighbour, "Turns a request round: ARP, neighbour discovery, ping."},
		{tableNDReply, "ND_REPLY", tableDrop, reasonNoNeighbour, "Completes a neighbour advertisement."},
		{tableOutput, "OUTPUT", tableDrop, reasonWrongMAC, "The only way out: to a local port, into the tunnel to one node or to several, or back. What a service's provider answers comes from the service again."},
		{tableDrop, "DROP", tableDrop, 0, "Counts what was thrown away, by reason."},
		{tableAffinity, "AFFINITY", tableAffinity, 0, "Which provider a client of a service has, in flows that the switch learns. Asked by DEST, which then goes on."},
		{tableTrack, "TRACK", tableDrop, reasonNotAdmitted, "Asks the connection tracker about what an endpoint of this node sends or gets, if its connections are tracked, unless nobody may judge it."},
		{tableKnown, "KNOWN", tableDrop, reasonNotAdmitted, "What belongs to a connection that was admitted, and nothing has changed since, goes back to FORWARD. An answer is judged as what it answers."},
		{tableFirstOut, "FIRST_OUT", tablePolicyOut, 0, "The first tier, of the sender: rules in their order."},
		{tablePolicyOut, "POLICY_OUT", tableLastOut, 0, "Policies that isolate the sender, and what they allow."},
		{tableLastOut, "LAST_OUT", tableFirstIn, 0, "The last tier, of the sender."},
		{tableFirstIn, "FIRST_IN", tablePolicyIn, 0, "The first tier, of the receiver."},
		{tablePolicyIn, "POLICY_IN", tableLastIn, 0, "Policies that isolate the receiver, and what they allow."},
		{tableLastIn, "LAST_IN", tableAdmit, 0, "The last tier, of the receiver."},
		{tableAdmit, "ADMIT", tableDrop, reasonNotAdmitted, "Notes in the connection tracker that the connection is admitted; then on in ADMITTED."},
		{tableEpoch, "EPOCH", tableEpoch, 0, "Which epoch is it? Asked by CLASSIFY, before anything else is found out about a packet."},
		{tablePeer, "PEER", tableDrop, reasonOtherNode, "Out of the tunnel: does the sender live on the node that it comes from? Its group; then on to DEST."},
		{tableOverheard, "OVERHEARD", tableOverheard, 0, "A copy for the agent of what a name server answers to an endpoint of this node whose rules have names of domains. Asked by TRACK, which then goes on."},
		{tableBegun, "BEGUN", tableSource, 0, "Has the connection tracker taken in a connection to a service that has just begun, or was there no room for it?"},
		{tableAdmitted, "ADMITTED", tableDrop, reasonNotAdmitted, "The connection tracker has noted a connection: back to FORWARD."},
		{tableAnswered, "ANSWERED", tableOutput, 0, "What a service's provider answers comes from the service again: it is counted, and goes back to FORWARD or OUTPUT, where it was looked up."},
		{tableCounted, "COUNTED", tableCounted, 0, "Counts what a provider has answered for a port of a service, and has the connection tracker forget what has ended where the client begins anew without the service. Asked by ANSWERED, which then goes on."},
		{tableRelated, "RELATED", tableOutput, 0, "An ICMP error of IPv6 about what was sent to a service becomes one of the service; back to OUTPUT."},
		{tableDeparted, "DEPARTED", tableDeparted, 0, "No packet comes here. It has the addresses of endpoints that are gone, until their connections are ended: an agent that was killed meanwhile goes on with that."},
		{tableSlowed, "SLOWED", tableDrop, reasonNobody, "What CLASSIFY does otherwise, for a local port that is slowed down, behind its meter: what it sends has made the datapath look packets up in very many ways."},
		{tableAllPorts, "ALL_PORTS", tableDrop, reasonNobody, "What local endpoints ask the switch passes the meter of all of them, behind that of the port: from GUARD on to NEIGHBOUR, from ANSWER to REPLY."},
	}
}

// Priorities. Where two flows of a table can match one packet, the names tell
// which wins.
const (
	priorityMiss    uint16 = 1
	priorityFlood   uint16 = 5  // what nobody of a bridged network has: it is for all of them
	priorityOther   uint16 = 10 // the rest of what a more exact flow singles out
	priorityNotIP   uint16 = 20 // whatever is no IP; priorityIP is for what is
	priorityIP      uint16 = 30
	priorityNear    uint16 = 50   // what is known of a receiver that is not found by MAC
	priorityExact   uint16 = 100  // one object, one kind of packet
	priorityChecked uint16 = 101  // of these, what is looked at for its size
	priorityTurned  uint16 = 102  // an answer of or to a group whose rules end judgements
	priorityRefuse  uint16 = 105  // what a flow for all of an object's packets would let pass
	priorityOutside uint16 = 106  // what such a flow would refuse leaves by the host
	priorityInside  uint16 = 107  // and what of it does not
	priorityHost    uint16 = 108  // but for the host itself
	priorityAnswer  uint16 = 109  // what answers one who came in by a host
	priorityExcept  uint16 = 110  // an exception to these
	priorityAsking  uint16 = 112  // a solicitation is metered before its target is looked at
	priorityService uint16 = 115  // fragments and errors of a provider
	priorityChoose  uint16 = 116  // a client of a service is known to have no provider
	priorityHairpin uint16 = 120  // what a provider sends to itself
	priorityKept    uint16 = 121  // a client has a provider
	priorityVisit   uint16 = 125  // endpoints of other tenants and a service
	priorityExempt  uint16 = 130  // what concerns nobody whom tiers judge
	priorityGuard   uint16 = 200  // looked at before everything else in its table
	priorityRestore uint16 = 201  // or goes on elsewhere
	priorityEntered uint16 = 205  // a guard has to do more for who came in by the host
	priorityTrunk   uint16 = 210  // what a guard must not stop: tags, at the uplink
	priorityTooBig  uint16 = 220  // what is too big goes no further
	priorityTracked uint16 = 2000 // above all else in FORWARD: what is to be judged first
	// Rules have priorityRules and twice their own, above all that any layout before had
	// in their table: where flows of both are there, these decide (books.go of the programmer).
	priorityRules uint16 = 300
	priorityLink  uint16 = 65000 // no rule is about what keeps the neighbours of a link together
	priorityStray uint16 = 65535 // what belongs to nobody's way
)
