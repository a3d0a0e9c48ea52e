package pipeline

// The tables, in the order in which a packet meets them. A packet only ever
// moves down this list: the numbers are those of the switch, and OpenFlow has
// no way back to a smaller one.
const (
	tableInput     uint8 = 0
	tablePort      uint8 = 1
	tableSrcGroup  uint8 = 2
	tableDNAT      uint8 = 3
	tableDstGroup  uint8 = 4
	tablePolicy    uint8 = 5
	tableSNAT      uint8 = 6
	tableRoute     uint8 = 7
	tableHostSNAT  uint8 = 8
	tableDeliver   uint8 = 9
	tableARP       uint8 = 10
	tableARPReply  uint8 = 11
	tableND        uint8 = 12
	tableNDReply   uint8 = 13
	tableEchoReply uint8 = 14
)

// drops says of a table that what nobody there wanted is dropped, and counted.
const drops uint8 = 0

// Table describes a table to people: dumps, documentation, tests.
type Table struct {
	ID   uint8
	Name string
	Miss uint8 // where a packet goes that no flow matched; 0: it is dropped
	Does string
}

// Tables returns the pipeline from top to bottom.
func Tables() []Table {
	return []Table{
		{tableInput, "INPUT", tablePort, "Throws away what no sender may send: multicast sources, VLAN tags."},
		{tablePort, "PORT", drops, "Finds out who is sending. A local port may only send as its own endpoint; a tunnelled packet belongs to the network of its VNI. Sets VRF, network and source group."},
		{tableSrcGroup, "SRC_GRP", tableDstGroup, "Tunnelled packets only: finds the group of a remote sender by VRF and source address."},
		{tableDNAT, "SRV_PROXY_DNAT", tableDstGroup, "Local senders only: service addresses become provider addresses (no flows yet)."},
		{tableDstGroup, "DST_GRP", tablePolicy, "Finds the group of the receiver by VRF and destination address, and pings for a gateway, which policy does not concern."},
		{tablePolicy, "POLICY", tableSNAT, "Applies the rules. What no rule mentions is allowed."},
		{tableSNAT, "SRV_PROXY_SNAT", tableRoute, "Answers of providers get the service address back (no flows yet)."},
		{tableRoute, "IP", tableDeliver, "Routes packets addressed to the gateway's MAC. Everything else stays in its network."},
		{tableHostSNAT, "HOST_SNAT", drops, "Routed packets to an address that is no endpoint: the way out by the node (no flows yet)."},
		{tableDeliver, "MAC_DEST", drops, "Puts the packet on the port of a local receiver, or into the tunnel to a remote one."},
		{tableARP, "ARP", drops, "ARP requests of local endpoints: who is asked for?"},
		{tableARPReply, "ARP_REPLY", drops, "Turns an ARP request into the answer and sends it back."},
		{tableND, "ND", drops, "IPv6 neighbour solicitations of local endpoints: who is asked for?"},
		{tableNDReply, "ND_REPLY", drops, "Completes the neighbour advertisement and sends it back."},
		{tableEchoReply, "ECHO_REPLY", drops, "Turns a ping for a gateway into the answer and sends it back."},
	}
}

// Priorities. Where two flows of a table can match one packet, the names tell
// which wins.
const (
	priorityMiss   uint16 = 1
	priorityOther  uint16 = 10  // the rest of what a more exact flow singles out; rules start above it
	priorityExact  uint16 = 100 // one object, one kind of packet
	priorityExcept uint16 = 110 // an exception to an exact flow
	priorityGuard  uint16 = 200 // looked at before everything else in its table
)
