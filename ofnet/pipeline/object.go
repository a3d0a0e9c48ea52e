package pipeline

import (
	"net/netip"
	"slices"
	"strconv"
)

// Key names an object of the wanted datapath: its kind and its id in the store.
type Key struct {
	Kind Kind
	ID   string
}

// Kind is the kind of a wanted object.
type Kind string

// Kinds of objects.
const (
	KindNetwork  Kind = "network"
	KindEndpoint Kind = "endpoint"
	KindFloodSet Kind = "flood set"
	KindService  Kind = "service"
	KindOutside  Kind = "outside"
	KindRouter   Kind = "router"
	KindRoute    Kind = "route"
	KindNextHop  Kind = "next hop"
	KindHopGroup Kind = "group of next hops"
	KindRule     Kind = "rule"
	KindTierRule Kind = "tier rule"
	KindEpoch    Kind = "epoch"
	KindPeer     Kind = "peer"
)

// kinds has them in the order in which they are programmed.
var kinds = []Kind{KindNetwork, KindEndpoint, KindFloodSet, KindService, KindOutside, KindRouter, KindNextHop, KindHopGroup, KindRoute, KindRule, KindTierRule, KindEpoch, KindPeer}

// Place is where a kind is in the order in which objects are programmed.
func (k Kind) Place() int { return slices.Index(kinds, k) }

// Object is anything the datapath can be asked to serve. Objects are values
// and never change once given away.
type Object interface {
	Key() Key
	// Equal tells whether the other object asks for the same. Objects may hold
	// slices, which == cannot compare.
	Equal(other Object) bool
}

// Mode is how a network forwards.
type Mode uint8

// Modes. In a bridged network, ARP and neighbour solicitations are packets as
// any other: they go to whom they are addressed, which usually is everybody.
// A proxy answers those for which it knows the answer.
const (
	Routed       Mode = iota // by VRF and address, to other networks by the gateway; nothing is flooded
	BridgedProxy             // by network and MAC; known neighbours are answered for
	BridgedFlood             // by network and MAC; nobody is answered for
)

// Bridged tells whether the network forwards by MAC.
func (m Mode) Bridged() bool { return m != Routed }

// Encap is how the packets of a network travel between nodes. A bridge serves
// networks of one kind.
type Encap uint8

// Encapsulations.
const (
	VXLAN Encap = iota // through a tunnel to the receiver's node; a VNI says which network it is
	VLAN               // by an uplink, with the network's tag as VLAN; others may be there, too
)

// String is what the store calls it.
func (e Encap) String() string {
	if e == VLAN {
		return "vlan"
	}
	return "vxlan"
}

// Network is a segment with its gateway. In a bridged one the gateway is no
// concern of ours: it is a host of the network, or there is none.
type Network struct {
	ID       string // N.T
	Tenant   string
	Mode     Mode
	Encap    Encap
	VRF      uint16       // the tenant's routing domain, 1..MaxVRF
	VNI      uint32       // 1..MaxVNI; VLAN: 0
	Tag      uint16       // 1..MaxTag: the network's number inside every switch; VLAN: its VLAN, 1..MaxVLAN
	Subnet   netip.Prefix // IPv4, masked
	Gateway  netip.Addr   // IPv4; invalid: none
	Subnet6  netip.Prefix
	Gateway6 netip.Addr
}

// Endpoint is an attachment to a network, on this node or on another.
type Endpoint struct {
	ID      string // N.T-C
	Network string // N.T
	Tenant  string
	Mode    Mode // its network's
	Encap   Encap
	VRF     uint16
	VNI     uint32
	Tag     uint16
	IPv4    netip.Addr // invalid: none
	IPv6    netip.Addr
	MAC     [6]byte
	Group   uint16       // endpoint group id, up to MaxGroup; 0: none
	Local   bool         // on this node: the driver finds its port by ID
	Slowed  bool         `json:"-"` // local: it sends headers of very many kinds, and is limited for it; the driver alone knows
	VTEP    netip.Addr   // remote: where it lives; VLAN: its node among the routers outside, invalid if that is not known
	Limits  Limits       // local: of its group or, of a pod, its own
	Class   uint16       // which rules of tiers name; 0: none
	Tiers   Tiers        // local: how tiers judge it
	Host    bool         // local: the host itself; tiers judge nothing between it and its endpoints
	Private netip.Prefix // local: of the IPv4 addresses by which the host knows endpoints; invalid: there is no way out
}

// EncapOf is the encapsulation of an object's network; shared tells that the object
// belongs to no network, and so concerns both.
func EncapOf(o Object) (e Encap, shared bool) {
	if Shared(o.Key().Kind) {
		return 0, true
	}
	switch o := o.(type) {
	case Network:
		return o.Encap, false
	case Endpoint:
		return o.Encap, false
	case FloodSet:
		return o.Encap, false
	case Service:
		return o.Encap, false
	case Router, Route, NextHop, HopGroup:
		return VLAN, false
	}
	return VXLAN, false // the way out by the host, and other nodes
}

// Shared tells whether objects of a kind belong to no network.
func Shared(k Kind) bool { return k == KindRule || k == KindTierRule || k == KindEpoch }

// FloodSet is who gets what a bridged network floods: its members on this node,
// and the nodes that have members. It is an object of its own because it joins
// many endpoints, and no endpoint's flows may depend on another one.
type FloodSet struct {
	Network string // N.T
	Encap   Encap
	VNI     uint32
	Tag     uint16
	Members [][6]byte    // MACs of the endpoints on this node, ascending
	VTEPs   []netip.Addr // of the other nodes with endpoints, ascending; VLAN: of no meaning
}

// Service is a virtual address of a tenant, or several, and who serves there. It joins many
// endpoints, wherever they are, and no endpoint's flows depend on it.
type Service struct {
	ID        string // S:T
	Mode      Mode   // of the network that supplies the address
	Encap     Encap
	VRF       uint16
	Tag       uint16
	Ports     []ServicePort
	Providers []netip.Addr   // ascending; those of an address's version of IP serve there
	Draining  []netip.Addr   // likewise: they keep their connections and get no new ones
	Inner     []netip.Prefix // clients that come in by the host and are not from outside
	Overheard bool           // it is one of names: the agent hears what it answers to those whom tiers judge
	Affinity  uint16         // seconds after its last new connection for which a client keeps its provider; 0: each connection may get any
}

// MaxAffinity is the longest time in seconds that a switch remembers a client for: the idle timeout of a flow.
const MaxAffinity = 65535

// ServicePort is a port at an address of a service, and that of its providers behind it.
type ServicePort struct {
	Name     string // that the service knows it by, at all of its addresses
	Address  netip.Addr
	From     Clients
	Protocol uint8 // TCP or UDP
	Port     uint16
	Target   uint16         // port of the providers of the service; 0: the port has its own ones
	Group    uint32         // number of its group in the switch, which no other port has: Numbered
	Shared   bool           // other services have ports at the address, too
	Machine  bool           // a machine has the address: what is for no port of a service there is the machine's (machine.go)
	Mixed    bool           // so they have of UDP, at an address that is served whole: whose a later fragment is, it does not say
	Sources  []netip.Prefix // of clients that are served; none: everybody is. Others are not answered

	// Providers of the port alone, with their ports, of its address's version of IP: those that
	// get new connections, and those that keep the ones they have. Ascending, each once. They may be
	// addresses that no endpoint has: such a connection leaves by the host.
	Serving, Draining []netip.AddrPort
	Silent            bool // if nobody gets new connections, they are not answered, instead of refused
}

// Clients say who is served at an address.
type Clients uint8

// Sorts of clients.
const (
	FromPods    Clients = 1 << iota // endpoints of the tenant
	FromHost                        // the host itself, and who comes in by it; only one service may have a port of this number and protocol at the address
	FromOutside                     // who comes in by the host and is not in Inner of the service: another port of the service is for the others. VLAN: who comes in by the uplink
	FromTenants                     // endpoints of other tenants, of this node
)

// Outside is the way out of the tenants' networks: a port to the host, which knows
// endpoints by private addresses.
type Outside struct {
	ID      string       // of the port, as an endpoint's
	MAC     [6]byte      // of the host's end
	Prefix  netip.Prefix // private IPv4 addresses, 16 bits long
	Prefix6 netip.Prefix // private IPv6 addresses, at most 112 bits long; invalid: none
	Own     []netip.Addr // by which Kubernetes knows the host, ascending: policies that isolate an endpoint of the node let it reach these
	Led     []PortRange  // but not these ports, by which the host leads to endpoints and services, ascending
	Entered uint16       // VRF of the tenant whose services have node ports; 0: none has, or several, and whose an ICMP error about an answer is, the agent says
}

// Router is the node among the routers outside, by a port to the host.
type Router struct {
	ID   string     // of the port, as an endpoint's
	MAC  [6]byte    // of the host's end, and so the node's among the routers
	IPv4 netip.Addr // the node's own addresses; invalid: none
	IPv6 netip.Addr
}

// Route is the way to a prefix: by one router, or by several that are equally good.
type Route struct {
	Prefix  netip.Prefix // masked
	NextHop netip.Addr   // invalid: those of Group
	Group   uint32       // number of the HopGroup; 0: NextHop
}

// HopGroup is routers that are equally good. Many routes share it, so that a router that comes or goes is one change.
type HopGroup struct {
	Number   uint32       // FirstRouteGroup..LastRouteGroup, which no other one has
	NextHops []netip.Addr // those that are used now, each once
}

// NextHop is a router that routes lead to.
type NextHop struct {
	Address netip.Addr
	MAC     [6]byte
	From    [6]byte // our own MAC on that link
}

// KindsWithPorts are the kinds of objects that may have a port of their own.
var KindsWithPorts = []Kind{KindEndpoint, KindOutside, KindRouter}

// PortID is the id under which the driver finds the port of an object.
func PortID(o Object) (id string, has bool) {
	switch o := o.(type) {
	case Endpoint:
		return o.ID, o.Local
	case Outside:
		return o.ID, true
	case Router:
		return o.ID, true
	}
	return "", false
}

// Rule is one directional rule.
type Rule struct {
	ID       string
	Priority int    // 1..MaxPriority, higher wins
	SrcGroup uint16 // 0: any
	DstGroup uint16
	Src      netip.Prefix // invalid: any
	Dst      netip.Prefix
	Src6     netip.Prefix // for IPv6, in place of Src of IPv4; invalid: there is Src only
	Dst6     netip.Prefix
	Protocol uint8 // 0: any
	SrcPort  uint16
	DstPort  uint16
	TCPFlags string // "", syn, ack, "syn,ack", "syn,!ack", "!syn,ack"
	Allow    bool
	Ends     Ends `json:",omitempty"` // tiers are not asked about connections in this direction that the rule allows
}

// Key identifies the network.
func (n Network) Key() Key { return Key{KindNetwork, n.ID} }

// Key identifies the endpoint.
func (e Endpoint) Key() Key { return Key{KindEndpoint, e.ID} }

// Key identifies the flood set.
func (s FloodSet) Key() Key { return Key{KindFloodSet, s.Network} }

// Key identifies the service.
func (s Service) Key() Key { return Key{KindService, s.ID} }

// Key identifies the way out.
func (o Outside) Key() Key { return Key{KindOutside, o.ID} }

// Key identifies the router.
func (o Router) Key() Key { return Key{KindRouter, o.ID} }

// Key identifies the route.
func (o Route) Key() Key { return Key{KindRoute, o.Prefix.String()} }

// Key identifies the next hop.
func (o NextHop) Key() Key { return Key{KindNextHop, o.Address.String()} }

// Key identifies the group.
func (o HopGroup) Key() Key { return Key{KindHopGroup, strconv.FormatUint(uint64(o.Number), 10)} }

// Key identifies the rule.
func (r Rule) Key() Key { return Key{KindRule, r.ID} }

// Equal compares all fields.
func (n Network) Equal(other Object) bool { return other == Object(n) }

// Equal compares all fields.
func (e Endpoint) Equal(other Object) bool { return other == Object(e) }

// Equal compares all fields, the lists in their order.
func (s FloodSet) Equal(other Object) bool {
	o, ok := other.(FloodSet)
	return ok && s.Network == o.Network && s.Encap == o.Encap && s.VNI == o.VNI && s.Tag == o.Tag &&
		slices.Equal(s.Members, o.Members) && slices.Equal(s.VTEPs, o.VTEPs)
}

// Equal compares all fields, the lists in their order.
func (s Service) Equal(other Object) bool {
	o, ok := other.(Service)
	return ok && s.ID == o.ID && s.Mode == o.Mode && s.Encap == o.Encap && s.VRF == o.VRF && s.Tag == o.Tag && s.Affinity == o.Affinity && s.Overheard == o.Overheard &&
		slices.EqualFunc(s.Ports, o.Ports, ServicePort.equal) && slices.Equal(s.Inner, o.Inner) &&
		slices.Equal(s.Providers, o.Providers) && slices.Equal(s.Draining, o.Draining)
}

func (p ServicePort) equal(o ServicePort) bool {
	return p.Name == o.Name && p.Address == o.Address && p.From == o.From && p.Protocol == o.Protocol && p.Port == o.Port && p.Target == o.Target &&
		p.Group == o.Group && p.Shared == o.Shared && p.Machine == o.Machine && p.Mixed == o.Mixed && p.Silent == o.Silent &&
		slices.Equal(p.Sources, o.Sources) && slices.Equal(p.Serving, o.Serving) && slices.Equal(p.Draining, o.Draining)
}

// Equal compares all fields.
func (r Rule) Equal(other Object) bool { return other == Object(r) }

// Equal compares all fields, the lists in their order.
func (o Outside) Equal(other Object) bool {
	w, ok := other.(Outside)
	return ok && o.ID == w.ID && o.MAC == w.MAC && o.Prefix == w.Prefix && o.Prefix6 == w.Prefix6 && o.Entered == w.Entered && slices.Equal(o.Own, w.Own) && slices.Equal(o.Led, w.Led)
}

// Equal compares all fields.
func (o Router) Equal(other Object) bool { return other == Object(o) }

// Equal compares all fields.
func (o NextHop) Equal(other Object) bool { return other == Object(o) }

// Equal compares all fields.
func (o Route) Equal(other Object) bool { return other == Object(o) }

// Equal compares all fields, the next hops in their order.
func (o HopGroup) Equal(other Object) bool {
	g, ok := other.(HopGroup)
	return ok && o.Number == g.Number && slices.Equal(o.NextHops, g.NextHops)
}
