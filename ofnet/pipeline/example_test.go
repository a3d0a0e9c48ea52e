package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// The world of the tests: two tenants that use the same subnet, two networks
// in the first of them, two nodes. Three more networks are bridged.
//
//	              node 1              node 2
//	web.blue      web1 10.1.1.1       web2 10.1.1.2      group front
//	db.blue       db1  10.1.2.1       db2  10.1.2.2      group store
//	web.red       red1 10.1.1.1       red2 10.1.1.2      no group
//	lan.blue      lan1 10.1.4.1       lan2 10.1.4.2      group front, group store
//	              lan3 10.1.4.3                          group front
//	lan.red       lr1  10.1.4.1       lr2  10.1.4.2      no group
//	hub.blue      hub1 10.1.6.1       hub2 10.1.6.2      no group, ARP is flooded
var (
	addr   = netip.MustParseAddr
	prefix = netip.MustParsePrefix

	vtep1, vtep2 = addr("192.168.2.1"), addr("192.168.2.2")
	vtep3        = addr("192.168.2.3")
)

const (
	front uint16 = 7
	store uint16 = 8

	blueVRF uint16 = 1
	redVRF  uint16 = 2

	exampleTunnelPort = 1
	exampleNamesPort  = 9
	examplePort       = 3 // of the first local endpoint in golden files
)

// portOf returns the port of an object in golden files.
func portOf(o Object) uint32 {
	return examplePort + map[Key]uint32{db1.Key(): 1, lan1.Key(): 2, hub1.Key(): 3, wayOut.Key(): 4}[o.Key()]
}

func network(id, tenant string, vrf, vlan uint16, octet string) Network {
	return Network{
		ID: id, Tenant: tenant, VRF: vrf, VNI: 10000 + uint32(vlan), Tag: vlan,
		Subnet: prefix("10.1." + octet + ".0/24"), Gateway: addr("10.1." + octet + ".254"),
		Subnet6: prefix("fd00:" + octet + "::/64"), Gateway6: addr("fd00:" + octet + "::ffff"),
	}
}

var (
	webBlue = network("web.blue", "blue", blueVRF, 1, "1")
	dbBlue  = network("db.blue", "blue", blueVRF, 2, "2")
	webRed  = network("web.red", "red", redVRF, 3, "1")
	lanBlue = bridged(network("lan.blue", "blue", blueVRF, 4, "4"), BridgedProxy)
	lanRed  = bridged(network("lan.red", "red", redVRF, 5, "4"), BridgedProxy)
	hubBlue = bridged(network("hub.blue", "blue", blueVRF, 6, "6"), BridgedFlood)
)

// highBlue has another part of the IPv4 subnet of webBlue, and the same gateway.
var highBlue = func() Network {
	n := network("high.blue", "blue", blueVRF, 8, "8")
	n.Subnet, n.Gateway, n.First, n.Last = webBlue.Subnet, webBlue.Gateway, addr("10.1.1.100"), addr("10.1.1.199")
	return n
}()

// Networks on external VLANs.
var (
	vlanBlue = vlanTag(bridged(network("vlan.blue", "blue", blueVRF, 7, "7"), BridgedProxy), 7)
	vl1      = endpoint("vl1", vlanBlue, 1, front)
	vl2      = endpoint("vl2", vlanBlue, 2, store)
	vl3      = endpoint("vl3", vlanBlue, 3, 0)
	vlanFar  = vlanTag(bridged(network("far.blue", "blue", blueVRF, 9, "9"), BridgedProxy), 9) // behind a router
)

func vlanTag(n Network, vlan uint16) Network {
	n.Encap, n.VNI, n.Tag = VLAN, 0, vlan
	return n
}

// The host of node 1.
var wayOut = Outside{ID: "hostcontivh0", MAC: [6]byte{2, 2, 172, 19, 0xff, 0xfe}, Prefix: prefix("172.19.0.0/16"), Prefix6: prefix("fd63:6f6e:7469:7601::/64")}

func networkOf(e Endpoint) Network {
	all := []Network{webBlue, dbBlue, webRed, lanBlue, lanRed, hubBlue, vlanBlue, vlanFar, highBlue}
	return all[slices.IndexFunc(all, func(n Network) bool { return n.ID == e.Network })]
}

func bridged(n Network, m Mode) Network {
	n.Mode = m
	return n
}

// endpoint returns the nth endpoint of a network; odd ones are on node 1.
func endpoint(name string, in Network, n byte, group uint16) Endpoint {
	four, six := in.Subnet.Addr().As4(), in.Subnet6.Addr().As16()
	four[3], six[15] = n, n
	return Endpoint{
		ID: in.ID + "-" + name, Network: in.ID, Tenant: in.Tenant, Mode: in.Mode, Encap: in.Encap, VRF: in.VRF, VNI: in.VNI, Tag: in.Tag,
		IPv4: netip.AddrFrom4(four), IPv6: netip.AddrFrom16(six),
		MAC:   [6]byte{2, 2, four[0], four[1], four[2], four[3]},
		Group: group, VTEP: []netip.Addr{vtep2, vtep1}[n%2],
	}
}

var (
	web1 = endpoint("web1", webBlue, 1, front)
	web2 = endpoint("web2", webBlue, 2, front)
	db1  = endpoint("db1", dbBlue, 1, store)
	db2  = endpoint("db2", dbBlue, 2, store)
	red1 = endpoint("red1", webRed, 1, 0)
	red2 = endpoint("red2", webRed, 2, 0)
	lan1 = endpoint("lan1", lanBlue, 1, front)
	lan2 = endpoint("lan2", lanBlue, 2, store)
	lan3 = endpoint("lan3", lanBlue, 3, front)
	lr1  = endpoint("lr1", lanRed, 1, 0)
	lr2  = endpoint("lr2", lanRed, 2, 0)
	hub1 = endpoint("hub1", hubBlue, 1, 0)
	hub2 = endpoint("hub2", hubBlue, 2, 0)
)

// here returns an endpoint as its own node has it.
func here(e Endpoint) Endpoint {
	e.Local, e.VTEP = true, netip.Addr{}
	return e
}

// limited returns an endpoint with limits.
func limited(e Endpoint, l Limits) Endpoint {
	e.Limits = l
	return e
}

// slowedDown returns an endpoint that is slowed down.
func slowedDown(e Endpoint) Endpoint {
	e.Slowed = true
	return e
}

// judged returns an endpoint that tiers evaluate.
func judged(e Endpoint, class uint16, t Tiers) Endpoint {
	e.Class, e.Tiers = class, t
	return e
}

func rule(id string, priority int, change func(*Rule)) Rule {
	r := Rule{ID: id, Priority: priority}
	change(&r)
	return r
}

func node1() *Pipeline {
	return New(Config{TunnelPort: exampleTunnelPort, LocalVTEP: vtep1, MTU: 1450, NamesPort: exampleNamesPort})
}

// wantsOf returns what an object needs; nothing if it is refused.
func wantsOf(p *Pipeline, o Object, port uint32) Wants {
	wants, err := p.For(o, port)
	if err != nil {
		return Wants{}
	}
	return wants
}

func flowsOf(p *Pipeline, o Object, port uint32) []openflow.Flow { return wantsOf(p, o, port).Flows }

// add adds what another object needs.
func (w *Wants) add(more Wants) {
	w.Flows = append(w.Flows, more.Flows...)
	w.Groups = append(w.Groups, more.Groups...)
	w.Meters = append(w.Meters, more.Meters...)
}

// Networks of routed VLANs, and the external routers.
var (
	routedVLAN = func() Network {
		n := vlanTag(network("routed.blue", "blue", SharedVRF, 8, "8"), 8)
		return n
	}()
	rv1    = endpoint("rv1", routedVLAN, 1, front)
	rv2    = endpoint("rv2", routedVLAN, 2, store)
	rvShop = Service{ID: "shop:blue", Encap: VLAN, VRF: SharedVRF, Tag: routedVLAN.Tag, Providers: addressesOf(rv1, rv2), Ports: []ServicePort{
		{Address: addr("10.1.8.200"), From: FromPods, Protocol: 6, Port: 80, Target: 8080},
		{Address: addr("10.1.8.200"), From: FromOutside, Protocol: 6, Port: 80, Serving: []netip.AddrPort{netip.AddrPortFrom(rv1.IPv4, 8080)}},
	}}.Numbered(noneTaken)
	borderA = NextHop{Address: addr("192.0.2.1"), MAC: [6]byte{2, 0, 0, 0, 0, 1}, From: asRouter.MAC}
	borderB = NextHop{Address: addr("fe80::b"), MAC: [6]byte{2, 0, 0, 0, 0, 2}, From: asRouter.MAC}

	asRouter = Router{ID: "inb01", MAC: [6]byte{2, 2, 192, 0, 2, 9}, IPv4: addr("192.0.2.9"), IPv6: addr("2001:db8::9")}
)
