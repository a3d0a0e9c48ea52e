package pipeline

// Reason is why a packet is dropped.
type Reason uint8

// Reasons. They are in register REASON and so in dumps: append, never reorder.
const (
	reasonNobody Reason = iota + 1
	reasonIllegal
	reasonForged
	reasonNoNeighbour
	reasonOwnAddress
	reasonDenied
	reasonMulticast
	reasonTTL
	reasonNoGateway
	reasonNoRoute
	reasonUnknown
	reasonOtherNetwork
	reasonBack
	reasonWrongMAC
	reasonNoCopy
	reasonNoProvider
	reasonTooShort
	reasonNoNextHop
	reasonTooBig
	reasonQuoted
	reasonNotAdmitted
	reasonNotServed
	reasonOtherNode
	reasonServer
	reasonFull
	reasonStray
	reasonInvalid
	reasonTold
	reasonFirstTier
	reasonPolicyTier
	reasonLastTier
)

// DropReason is a reason with its description.
type DropReason struct {
	ID   Reason
	Name string
	Does string
}

// Reasons lists the reasons, for dumps and documentation.
func Reasons() []DropReason {
	return []DropReason{
		{reasonNobody, "nobody", "A port or VNI that belongs to nobody."},
		{reasonIllegal, "illegal", "A multicast address as the sender's MAC; a VLAN tag."},
		{reasonForged, "forged", "A local endpoint does not send as itself, or sends what it may not: other protocols (in a routed network), link-local traffic."},
		{reasonNoNeighbour, "no neighbour", "ARP or neighbour solicitation for an address that nobody has in this network."},
		{reasonOwnAddress, "own address", "An endpoint asks for its own address, to announce it or to see whether it is free; silence is the answer."},
		{reasonDenied, "denied", "A rule says so; the rule's own flow counts it, too."},
		{reasonMulticast, "multicast", "Multicast and broadcast have no receivers, unless the network is bridged; what belongs to the cable never has."},
		{reasonTTL, "TTL", "To be routed, and cannot live another hop; an endpoint of this node is told by an ICMP error, unless it sends too many."},
		{reasonNoGateway, "no gateway", "To be routed, from or to a network without a gateway."},
		{reasonNoRoute, "no route", "To be routed, and no endpoint of the tenant has the address."},
		{reasonUnknown, "unknown", "Not to be routed, and no endpoint of the tenant has the address."},
		{reasonOtherNetwork, "other network", "Not to be routed, and the address is one of another network."},
		{reasonBack, "back", "Out of the tunnel, for an endpoint behind it."},
		{reasonWrongMAC, "wrong MAC", "For a local endpoint's address, at another MAC than its own."},
		{reasonNoCopy, "no copy", "The copy of a flooded packet for its own sender, or for a member that has no port yet."},
		{reasonNoProvider, "no provider", "For a service, and nobody serves it: no provider, or no such port. The client is refused, unless other nodes have providers that a policy `Local` keeps from it, or it sends too many."},
		{reasonTooShort, "too short", "The first fragment of a packet, without the ports or the ICMPv6 type by which it is judged, or without all headers before them."},
		{reasonNoNextHop, "no next hop", "By a route to a router outside that has not told its MAC."},
		{reasonTooBig, "too big", "Larger than the way to other nodes carries; the sender is told by an ICMP error, unless it sends too many."},
		{reasonQuoted, "quoted", "An ICMP error from outside; netplugin delivers it, quoting the packet that the endpoint has sent."},
		{reasonNotAdmitted, "not admitted", "Connections are judged of an end of it, and this is of none that the tiers could judge: an ICMP error about one that is not admitted, what the connection tracker takes for invalid, a fragment or reply that is flooded, or at the MAC of another receiver than its address has."},
		{reasonNotServed, "not served", "For a service that serves other clients only."},
		{reasonOtherNode, "other node", "Out of the tunnel, from a node that does not have the sender: a stranger, or one that speaks for others' endpoints."},
		{reasonServer, "server", "What routers and DHCP servers send, from a local endpoint: router advertisements, redirects; UDP from ports 67 and 547, and to 68 and 546."},
		{reasonFull, "full", "Begins a connection to a service, and the connection tracker has no room for one more of the tenant, or at all."},
		{reasonStray, "stray", "A fragment that the connection tracker has kept in vain, and gives back on the way of another packet."},
		{reasonInvalid, "invalid", "For a service, and to the connection tracker it neither begins a connection nor belongs to one that it knows."},
		{reasonTold, "told", "What another node answers when netplugin asks it whether packets pass; netplugin has it."},
		{reasonFirstTier, "admin tier", "A rule of the first tier denies its connection, as of a ClusterNetworkPolicy of tier Admin."},
		{reasonPolicyTier, "network policies", "Policies isolate an end of its connection, and none allows it; or it is not known yet what policies say of that end."},
		{reasonLastTier, "baseline tier", "A rule of the last tier denies its connection, as of a ClusterNetworkPolicy of tier Baseline."},
	}
}

// drop is the table where packets end. Everything that is dropped on purpose passes here, so one table counts
// the drops by reason; the flow that dropped a packet counts it for its object.
type drop struct{}

func (drop) base(w *Wants) {
	for _, r := range Reasons() {
		w.flow(at(tableDrop, priorityExact, regReason.is(uint32(r.ID))).end())
	}
}
