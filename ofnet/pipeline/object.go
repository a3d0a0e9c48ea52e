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

// kinds lists the kinds in the order in which they are programmed.
var kinds = []Kind{KindNetwork, KindEndpoint, KindFloodSet, KindService, KindOutside, KindRouter, KindNextHop, KindHopGroup, KindRoute, KindRule, KindTierRule, KindEpoch, KindPeer}

// Place returns the index of a kind in the order in which objects are programmed.
func (k Kind) Place() int { return slices.Index(kinds, k) }

// Object is an object of the wanted datapath. Objects are values and never change once returned or passed on.
type Object interface {
	Key() Key
	// Equal reports whether the other object wants the same. Objects may contain slices, which == cannot compare.
	Equal(other Object) bool
}

// Mode is how a network forwards.
type Mode uint8

// Modes. In a bridged network, ARP and neighbour solicitations are packets like any other: they go to their
// destination, which usually is all hosts. A proxy answers those for known addresses.
const (
	Routed       Mode = iota // by VRF and address, to other networks by the gateway; nothing is flooded
	BridgedProxy             // by network and MAC; the switch answers for known neighbours
	BridgedFlood             // by network and MAC; the switch answers for none
)

// Bridged reports whether the network forwards by MAC.
func (m Mode) Bridged() bool { return m != Routed }

// Encap is how the packets of a network travel between nodes. A bridge serves
// networks of one kind.
type Encap uint8

// Encapsulations.
const (
	VXLAN Encap = iota // through a tunnel to the receiver's node; the VNI identifies the network
	VLAN               // by an uplink, with the network's tag as VLAN; other hosts may be there, too
)

// String returns the name of an encapsulation in the store.
func (e Encap) String() string {
	if e == VLAN {
		return "vlan"
	}
	return "vxlan"
}

// Network is a segment with its gateway. In a bridged one the gateway is not the switch's: it is a
// host of the network, or there is none.
type Network struct {
	ID       string // N.T
	Tenant   string
	Mode     Mode
	Encap    Encap
	VRF      uint16       // the tenant's routing domain, 1..MaxVRF
	VNI      uint32       // 1..MaxVNI; VLAN: 0
	Tag      uint16       // 1..MaxTag: the network's number inside every switch; VLAN: its VLAN, 1..MaxVLAN
	Subnet   netip.Prefix // IPv4, masked
	First    netip.Addr   `json:",omitzero"` // of the IPv4 addresses that endpoints can have; invalid: all of the subnet
	Last     netip.Addr   `json:",omitzero"` // the last of them
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
	Slowed  bool         `json:"-"` // local: limited, as it sends headers of very many kinds; set by the driver alone
	VTEP    netip.Addr   // remote: tunnel address of its node; VLAN: its node among the external routers, invalid if unknown
	Limits  Limits       // local: of its group or, of a pod, its own
	Class   uint16       // in rules of tiers; 0: none
	Tiers   Tiers        // local: how tiers apply to it
	Host    bool         // local: the host itself; no tier applies between it and its endpoints
	Private netip.Prefix // local: prefix of the endpoints' IPv4 addresses on the host; invalid: there is no way out
}

// EncapOf returns the encapsulation of an object's network; shared means that the object belongs to no network,
// and so concerns both encapsulations.
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

// Shared reports whether objects of a kind belong to no network.
func Shared(k Kind) bool { return k == KindRule || k == KindTierRule || k == KindEpoch }

// FloodSet is the receivers of what a bridged network floods: its members on this node, and the nodes that have
// members. It is an object of its own because it joins many endpoints, and no endpoint's flows may depend on another
// one.
type FloodSet struct {
	Network string // N.T
	Encap   Encap
	VNI     uint32
	Tag     uint16
	Members [][6]byte    // MACs of the endpoints on this node, ascending
	VTEPs   []netip.Addr // of the other nodes with endpoints, ascending; VLAN: unused
}

// Service is one or more virtual addresses of a tenant, and their providers. It joins many endpoints, wherever
// they are, and no endpoint's flows depend on it.
type Service struct {
	ID        string // S:T
	Mode      Mode   // of the network that supplies the address
	Encap     Encap
	VRF       uint16
	Tag       uint16
	Ports     []ServicePort
	Providers []netip.Addr   // ascending; each serves at the addresses of its IP family
	Draining  []netip.Addr   // likewise: they keep their connections and get no new ones
	Inner     []netip.Prefix // clients that come in by the host and do not count as outside
	Overheard bool           // a DNS service: the agent gets copies of its answers to endpoints to which tiers apply
	Affinity  uint16         // seconds after its last new connection for which a client keeps its provider; 0: none
}

// MaxAffinity is the longest time in seconds for which a switch stores a client's provider: the idle timeout of a flow.
const MaxAffinity = 65535

// ServicePort is a port at an address of a service, and that of its providers behind it.
type ServicePort struct {
	Name     string // in the service, at all of its addresses
	Address  netip.Addr
	From     Clients
	Protocol uint8 // TCP or UDP
	Port     uint16
	Target   uint16         // port of the providers of the service; 0: the port has its own ones
	Group    uint32         // number of its group in the switch, unique among ports: Numbered
	Shared   bool           // other services have ports at the address, too
	Machine  bool           // a machine has the address: what is for no port of a service there goes to the machine (machine.go)
	Mixed    bool           // others have UDP ports at the address, though it is served whole: a later fragment does not show its service
	Sources  []netip.Prefix // of clients that are served; none: all. Others get no answer

	// Providers of the port alone, with their ports, in the IP family of its address: those that get new
	// connections, and those that keep existing ones. Ascending, each once. They may be addresses that no
	// endpoint has: such a connection leaves by the host.
	Serving, Draining []netip.AddrPort
	Silent            bool // without providers for new connections, these are dropped instead of refused
}

// Clients are the kinds of clients that are served at an address.
type Clients uint8

// Kinds of clients.
const (
	FromPods    Clients = 1 << iota // endpoints of the tenant
	FromHost                        // the host itself, and clients that come in by it; only one service may have a port of this number and protocol at the address
	FromOutside                     // clients that come in by the host and are not in Inner of the service: another port of the service is for the others. VLAN: clients from the uplink
	FromTenants                     // endpoints of other tenants, of this node
)

// Outside is the way out of the tenants' networks: a port to the host, which uses private addresses for endpoints.
type Outside struct {
	ID      string         // of the port, as an endpoint's
	MAC     [6]byte        // of the host's end
	Prefix  netip.Prefix   // private IPv4 addresses, 16 bits long
	Prefix6 netip.Prefix   // private IPv6 addresses, at most 112 bits long; invalid: none
	Own     []netip.Addr   // InternalIPs of the host in Kubernetes, ascending: isolated endpoints of the node may reach these
	Led     []PortRange    // but not these ports, which the host forwards to endpoints and services, ascending
	Ranges  []netip.Prefix // of the addresses of services, ascending
	Entered uint16         // VRF of the tenant whose services have node ports; 0: none has, or several have, and the agent finds the tenant of an ICMP error about an answer
}

// Router is the node as one of the external routers, by a port to the host.
type Router struct {
	ID   string     // of the port, as an endpoint's
	MAC  [6]byte    // of the host's end, and so the node's MAC for the routers
	IPv4 netip.Addr // the node's own addresses; invalid: none
	IPv6 netip.Addr
}

// Route is the route to a prefix: by one router, or by several of equal cost.
type Route struct {
	Prefix  netip.Prefix // masked
	NextHop netip.Addr   // invalid: those of Group
	Group   uint32       // number of the HopGroup; 0: NextHop
}

// HopGroup is routers of equal cost. Many routes share it, so that adding or removing a router is one change.
type HopGroup struct {
	Number   uint32       // FirstRouteGroup..LastRouteGroup, unique among groups
	NextHops []netip.Addr // those in use now, each once
}

// NextHop is a router that routes use.
type NextHop struct {
	Address netip.Addr
	MAC     [6]byte
	From    [6]byte // the node's own MAC on that link
}

// KindsWithPorts are the kinds of objects that may have a port of their own.
var KindsWithPorts = []Kind{KindEndpoint, KindOutside, KindRouter}

// PortID returns the id under which the driver finds the port of an object.
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
	Ends     Ends `json:",omitempty"` // tiers are not applied to connections in this direction that the rule allows
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
	return ok && o.ID == w.ID && o.MAC == w.MAC && o.Prefix == w.Prefix && o.Prefix6 == w.Prefix6 && o.Entered == w.Entered && slices.Equal(o.Own, w.Own) && slices.Equal(o.Led, w.Led) &&
		slices.Equal(o.Ranges, w.Ranges)
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
