// Package pipeline says what the switch does with a packet.
//
// It is pure: an object of the wanted datapath (a network, an endpoint, a
// rule) goes in, the flows it needs come out. Nothing is remembered from call
// to call and nothing is sent. The flows of an object depend on that object
// alone, so a change of one object never touches the flows of another, and a
// driver may compute, compare and replace them object by object, in any order.
//
// The mode is VXLAN with routing. A node is one bridge: a port per local
// endpoint and one tunnel port for all other nodes.
//
//	local port                          tunnel port
//	    |                                    |
//	 0 INPUT             nobody may send this
//	 1 PORT              who sends? (spoof guard, VNI)
//	    |  \__ ARP __ 10 ARP __ 11 ARP_REPLY __ back
//	    |   \_ ND ___ 12 ND ___ 13 ND_REPLY ___ back
//	    |                                    |
//	    |                                2 SRC_GRP
//	 3 SRV_PROXY_DNAT                        |
//	    |____________________________________|
//	    |
//	 4 DST_GRP           who receives? __ gateway pinged __ 14 ECHO_REPLY __ back
//	 5 POLICY            may they talk?
//	 6 SRV_PROXY_SNAT
//	 7 IP                to the gateway's MAC: route; else switch
//	    |  \__ no such endpoint __ 8 HOST_SNAT
//	 9 MAC_DEST          to a local port, or into the tunnel
//
// Four decisions carry the rest:
//
//   - Nothing is flooded and nothing is learned. Every receiver is known from
//     the store; a packet for an unknown one is dropped. What floods elsewhere,
//     ARP and neighbour discovery, is answered in the sender's own switch.
//   - The sending node routes (asymmetric routing): the packet travels in the
//     receiver's network, with the receiver's MAC, and the receiving node only
//     switches it. One lookup, one TTL step, the same on one node and on two.
//   - Policy is judged on both nodes. The receiver need not trust the sender
//     to have had the newest rules.
//   - A packet can only be what its port is: MAC and address are compared on
//     the way in, and on the way out they must name the same receiver.
//
// The package is read in this order: tables.go and registers.go (the nouns),
// feature.go (the shape every feature has), then one file per feature in the
// order of the drawing: input, tunnel, arp, nd, group, policy, route, deliver,
// and gateway, which is nobody's port but answers pings.
package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// AnycastMAC is the address all gateways have on all nodes, so that an
// endpoint finds the gateway wherever it runs.
var AnycastMAC = [6]byte{0x00, 0x00, 0x11, 0x11, 0x11, 0x11}

// Config is what the pipeline must know of its node.
type Config struct {
	TunnelPort uint32     // OpenFlow number of the one VXLAN port
	LocalVTEP  netip.Addr // our own tunnel address: nothing is tunnelled to it
	GatewayMAC [6]byte    // zero: AnycastMAC
}

// Pipeline computes flows. It is immutable and may be used concurrently.
type Pipeline struct {
	config   Config
	features []feature
}

// New makes the pipeline of a node.
func New(c Config) *Pipeline {
	if c.GatewayMAC == ([6]byte{}) {
		c.GatewayMAC = AnycastMAC
	}
	return &Pipeline{config: c, features: []feature{
		misses{},
		input{},
		tunnel{port: c.TunnelPort},
		arp{gateway: c.GatewayMAC},
		nd{gateway: c.GatewayMAC},
		group{},
		policy{},
		route{gateway: c.GatewayMAC},
		deliver{tunnelPort: c.TunnelPort},
		gateway{mac: c.GatewayMAC},
	}}
}

// Wants is what must be in the switch for an object.
type Wants struct {
	Flows  []openflow.Flow
	Groups []openflow.Group
	Meters []openflow.Meter
}

// Base returns what is there before any object is: misses, guards and the
// answers all objects share.
func (p *Pipeline) Base() Wants {
	var flows []openflow.Flow
	for _, f := range p.features {
		flows = append(flows, f.base()...)
	}
	return Wants{Flows: stamp(flows, cookie.New(cookie.Base, ""))}
}

// For returns what an object needs. Port is the OpenFlow number of a local
// endpoint's port; 0 says that there is none, and then a local endpoint needs
// nothing, as nothing could be delivered to it. Other objects ignore it.
//
// The error is that of an object that cannot be expressed; it gets nothing. Neither does a remote endpoint whose node is not known. All flows
// of an object have its Cookie.
func (p *Pipeline) For(o Object, port uint32) (Wants, error) {
	if err := check(o); err != nil {
		return Wants{}, err
	}
	var flows []openflow.Flow
	for _, f := range p.features {
		switch o := o.(type) {
		case Network:
			flows = append(flows, f.network(o)...)
		case Endpoint:
			if here, ok := p.place(o, port); ok {
				flows = append(flows, f.endpoint(here)...)
			}
		case Rule:
			flows = append(flows, f.rule(o)...)
		}
	}
	return Wants{Flows: stamp(flows, Cookie(o.Key()))}, nil
}

// place says where an endpoint can be reached, if it can.
func (p *Pipeline) place(e Endpoint, port uint32) (placed, bool) {
	if e.Local {
		return placed{Endpoint: e, port: port}, port != 0
	}
	return placed{Endpoint: e}, e.VTEP.IsValid() && e.VTEP != p.config.LocalVTEP
}

// Cookie returns the cookie of all flows of an object.
func Cookie(key Key) uint64 {
	return cookie.New(classes[key.Kind], key.ID)
}

// classes maps kinds of objects to classes of cookies.
var classes = map[Kind]cookie.Class{
	KindNetwork:  cookie.Network,
	KindEndpoint: cookie.Endpoint,
	KindRule:     cookie.Policy,
}

func stamp(flows []openflow.Flow, c uint64) []openflow.Flow {
	for i := range flows {
		flows[i].Cookie = c
	}
	return flows
}
