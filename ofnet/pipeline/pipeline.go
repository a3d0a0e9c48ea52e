// Package pipeline computes the flows of the switch.
//
// It is pure: an object of the wanted datapath (a network, an endpoint, a rule) goes in, the flows, groups and
// meters that it needs come out. It has no state between calls and sends nothing. What an object needs depends
// on that object alone, so a change of one object never changes the flows of another, and a driver may compute,
// compare and replace them object by object, in any order.
//
// Networks are joined by VXLAN and routed or bridged, or they are of encapsulation VLAN: bridged as VLANs, or
// routed by nodes that are routers among the external ones. A bridge has a port per local endpoint and one to
// all other nodes: the tunnel or, in a bridge of its own, the uplink. The drawing is of routed networks;
// bridge.go, flood.go, uplink.go, router.go and announced.go describe the differences of the others.
//
//	                        CLASSIFY
//	local port  ___________/        \______________  tunnel port
//	    |                                               |
//	GUARD     is it really the endpoint?                |
//	    |   \__ looks up a neighbour: NEIGHBOUR __.      |
//	    |                                         |     |
//	ROUTER    is it for the gateway, a service?   |     |
//	    |                                         |   PEER     who sends, and from that node?
//	    |_________________________________________|_____|
//	    |                                         |
//	DEST      who receives, and where is it?      |
//	    |   \__ a gateway is pinged ______________|
//	POLICY    may they talk?                      |
//	    |                                         |
//	FORWARD   route, or stay in the network     ANSWER   not too many
//	    |   \__ of a tracked endpoint: TRACK, KNOWN, the tiers, ADMIT, and back here once
//	    |                                         |
//	    |                                       REPLY, ND_REPLY
//	    |_________________________________________|
//	    |
//	OUTPUT    to a local port, into the tunnel, or back
//
//	DROP      counts what any of them dropped, by reason
//
// Four decisions determine the rest:
//
//   - Nothing is learned, and where networks are routed nothing is flooded. Every receiver is known from the
//     store; a packet for an unknown one is dropped. What floods elsewhere, ARP and neighbour discovery, is
//     answered in the sender's own switch.
//   - The sending node routes (asymmetric routing): the packet travels in the receiver's network, with the
//     receiver's MAC, and the receiving node only switches it. One lookup, one TTL step, the same on one node
//     and on two.
//   - Policies are applied on both nodes. The receiver need not rely on the sender having had the newest
//     rules.
//   - A packet must match its port: MAC and address are checked on the way in, and on the way out they must
//     identify the same receiver.
//
// Read object.go (the wanted objects), tables.go, registers.go and feature.go (the form of all features) first.
// The other files have one subject each:
//
//	the way in          classify, slowed; guard; peer and source: who sends
//	requests            arp, nd, gateway, names (DNS), echo (of other nodes); answer: how many are answered
//	the way             dest: who receives; bridge, flood, uplink, router; forward, output; limit: how much
//	services            service, with indexedservice, provider, connection, affinity and spread
//	  counted           answered, served
//	  not served        refuse, unserved
//	  special packets   ended (a port is used again), related (ICMP errors), machine (addresses of nodes)
//	  clients           entrance, byhost and standin: through a host; announced: by the uplink; visit: of other tenants
//	policies            policy: rules of groups, final; tier: rules of Kubernetes, track, overheard (answers of DNS)
//	the outside         outside, quoted (ICMP errors)
//	no further          drop, toobig, expired (hop limit), stray (fragments)
//	for the driver      check (limits of objects), packet (to the agent), meters, counters, receiver, explain, zone
//
// family has what differs between IPv4 and IPv6.
package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// AnycastMAC is the MAC of all gateways on all nodes, so that an endpoint finds the gateway wherever it runs.
var AnycastMAC = [6]byte{0x00, 0x00, 0x11, 0x11, 0x11, 0x11}

// Config is the pipeline's configuration for its node.
type Config struct {
	TunnelPort uint32     // OpenFlow number of the one VXLAN port; 0: the bridge has an uplink
	UplinkPort uint32     // OpenFlow number of the port to the physical network; 0: the bridge has a tunnel
	LocalVTEP  netip.Addr // this node's tunnel address: nothing is tunnelled to it
	GatewayMAC [6]byte    // zero: AnycastMAC
	MetersEnd  uint32     // the first number that no meter of the switch can have; 0: it accepts all of the pipeline's; 1: it has no meters
	MTU        int        // bytes of an IP packet to other nodes; 0: sizes are not checked
	NamesPort  uint32     // OpenFlow number of the name server's port; 0: there is no name server
}

// Pipeline computes flows. It is immutable and may be used concurrently.
type Pipeline struct {
	config   Config
	features []any // see feature.go
}

// New makes the pipeline of a node.
func New(c Config) *Pipeline {
	if c.GatewayMAC == ([6]byte{}) {
		c.GatewayMAC = AnycastMAC
	}
	others := max(c.TunnelPort, c.UplinkPort)
	size := tooBig{mtu: c.MTU}
	if !c.hasMeter(PacketTooBig.meter()) {
		size.mtu = 0
	}
	hops := expired{noMeter: !c.hasMeter(PacketExpired.meter())}
	p := &Pipeline{config: c, features: []any{
		tableMisses{},
		classify{tunnelPort: c.TunnelPort},
		slowed{},
		guard{},
		arp{gateway: c.GatewayMAC},
		nd{gateway: c.GatewayMAC},
		gateway{mac: c.GatewayMAC},
		peers{},
		dest{others: others},
		bridging{others: others},
		flood{tunnelPort: c.TunnelPort, self: c.LocalVTEP},
		services{gateway: c.GatewayMAC},
		answered{},
		ended{},
		related{},
		begun{},
		stray{},
		refuse{gateway: c.GatewayMAC, noMeter: !c.hasMeter(PacketRefused.meter())},
		outside{gateway: c.GatewayMAC, size: size},
		unserved{},
		quoted{noMeter: !c.hasMeter(PacketError.meter())},
		byHost{gateway: c.GatewayMAC},
		visit{},
		echo{tunnelPort: c.TunnelPort, underlay6: c.LocalVTEP.Is6()},
		entrance{gateway: c.GatewayMAC, tunnelPort: c.TunnelPort, underlay6: c.LocalVTEP.Is6(), size: size},
		policy{},
		tracking{},
		overheard{noMeter: !c.hasMeter(LastMeter)},
		tiers{},
		final{},
		forward{gateway: c.GatewayMAC, others: others, size: size, hops: hops},
		size,
		hops,
		answer{},
		limit{},
		output{tunnelPort: c.TunnelPort},
		drop{},
	}}
	if c.UplinkPort != 0 {
		p.features = append(p.features, source{}, uplink{port: c.UplinkPort}, router{uplink: c.UplinkPort, size: size, hops: hops}, announced{})
	}
	if c.NamesPort != 0 {
		p.features = append(p.features, names{port: c.NamesPort, gateway: c.GatewayMAC})
	}
	return p
}

// Base returns what is there before any object is: misses, guards and the answers that all objects share.
func (p *Pipeline) Base() Wants {
	w := &Wants{}
	each(p, func(f baseFeature) { f.base(w) })
	return p.finished(w, cookie.New(cookie.Base, ""))
}

// For returns what an object needs. Port is the OpenFlow number of a local endpoint's port, or of the one to the
// outside; 0 means that there is none, and then the object needs nothing, as nothing could be delivered there.
// Others ignore it.
//
// The error is that of an object that cannot be expressed; it gets nothing. Neither does a remote endpoint
// whose node is unknown. All flows of an object have its Cookie.
func (p *Pipeline) For(o Object, port uint32) (Wants, error) {
	if err := check(o); err != nil {
		return Wants{}, err
	}
	w := &Wants{Flows: make([]openflow.Flow, 0, 8)} // most objects need less
	switch o := o.(type) {
	case Network:
		each(p, func(f networkFeature) { f.network(w, o) })
	case Endpoint:
		if e, ok := p.place(o, port); ok {
			each(p, func(f endpointFeature) { f.endpoint(w, e) })
		}
	case FloodSet:
		each(p, func(f floodFeature) { f.floodSet(w, o) })
	case Service:
		each(p, func(f serviceFeature) { f.service(w, o) })
	case Outside:
		if port != 0 {
			each(p, func(f outsideFeature) { f.outside(w, o, port) })
		}
	case Router:
		if port != 0 {
			each(p, func(f routerFeature) { f.router(w, o, port) })
		}
	case Route:
		each(p, func(f routerFeature) { f.route(w, o) })
	case NextHop:
		each(p, func(f routerFeature) { f.nextHop(w, o) })
	case HopGroup:
		each(p, func(f routerFeature) { f.hopGroup(w, o) })
	case Rule:
		each(p, func(f ruleFeature) { f.rule(w, o) })
	case TierRule:
		each(p, func(f tierFeature) { f.tierRule(w, o) })
	case Peer:
		if p.reaches(o.VTEP) {
			each(p, func(f peerFeature) { f.peer(w, o) })
		}
	case Epoch:
		each(p, func(f epochFeature) { f.epoch(w, o) })
	}
	return p.finished(w, Cookie(o.Key())), nil
}

// each calls the features that implement a method.
func each[F any](p *Pipeline, ask func(F)) {
	for _, f := range p.features {
		if f, ok := f.(F); ok {
			ask(f)
		}
	}
}

// place returns an endpoint with its port; false if it cannot be reached.
func (p *Pipeline) place(e Endpoint, port uint32) (placed, bool) {
	if e.Local {
		return placed{Endpoint: e, port: port}, port != 0
	}
	return placed{Endpoint: e}, e.Encap == VLAN || e.VTEP.IsValid() && e.VTEP != p.config.LocalVTEP
}

// reaches reports whether there are tunnels to another node.
func (p *Pipeline) reaches(vtep netip.Addr) bool {
	own := p.config.LocalVTEP
	return p.config.TunnelPort != 0 && vtep != own && (!own.IsValid() || own.Is4() == vtep.Is4())
}

// Cookie returns the cookie of all flows of an object.
func Cookie(key Key) uint64 {
	return cookie.New(classes[key.Kind], key.ID)
}

// classes maps kinds of objects to classes of cookies.
var classes = map[Kind]cookie.Class{
	KindNetwork:  cookie.Network,
	KindEndpoint: cookie.Endpoint,
	KindFloodSet: cookie.FloodSet,
	KindService:  cookie.Service,
	KindOutside:  cookie.Outside,
	KindRouter:   cookie.Router,
	KindRoute:    cookie.Route,
	KindNextHop:  cookie.NextHop,
	KindRule:     cookie.Policy,
	KindTierRule: cookie.TierRule,
	KindEpoch:    cookie.Epoch,
	KindPeer:     cookie.Peer,
}

// hasMeter reports whether the switch can have a meter; 0 is none.
func (c Config) hasMeter(id uint32) bool { return c.MetersEnd == 0 || id < c.MetersEnd }

// finished sets the cookie of all flows, and removes the meters that the switch cannot have.
func (p *Pipeline) finished(w *Wants, c uint64) Wants {
	for i := range w.Flows {
		w.Flows[i].Cookie = c
	}
	w.Meters = slices.DeleteFunc(w.Meters, func(m openflow.Meter) bool { return !p.config.hasMeter(m.ID) })
	for i := range w.Flows {
		if !p.config.hasMeter(w.Flows[i].Meter) {
			w.Flows[i].Meter = 0
		}
	}
	return *w
}
