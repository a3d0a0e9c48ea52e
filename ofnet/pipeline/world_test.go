package pipeline

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/utils/inet"
)

// landscape is what the networks of a world have in common.
type landscape struct {
	name  string
	encap Encap
	modes []Mode
}

var landscapes = []landscape{
	{"routed in tunnels", VXLAN, []Mode{Routed}},
	{"bridged in tunnels", VXLAN, []Mode{BridgedProxy, BridgedFlood}},
	{"bridged on VLANs", VLAN, []Mode{BridgedProxy, BridgedFlood}},
	{"routed on VLANs", VLAN, []Mode{Routed}},
}

// routes reports whether nodes route.
func (l landscape) routes() bool { return !l.modes[0].Bridged() }

// world is a set of random networks, endpoints, rules and services. Endpoint i is at port 10+i, on node i%3.
type world struct {
	landscape
	lawless   bool // rules do not apply
	networks  []Network
	endpoints []Endpoint
	rules     []Rule
	tierRules []TierRule // of worlds with classes
	epoch     uint32
	services  []Service
	talks     []talk
	rand      *rand.Rand
	sent      uint16 // datagrams
	ports     uint16 // of clients of services
}

func (w *world) String() string {
	var b strings.Builder
	for _, n := range w.networks {
		fmt.Fprintf(&b, "network %s mode %d gateways %s %s\n", n.ID, n.Mode, n.Gateway, n.Gateway6)
	}
	for i, e := range w.endpoints {
		fmt.Fprintf(&b, "endpoint %d %s %s %s group %d class %d tiers %b DSCP %d\n", i, e.Network, e.IPv4, e.IPv6, e.Group, e.Class, e.Tiers, e.Limits.DSCP)
	}
	for _, r := range w.rules {
		fmt.Fprintf(&b, "rule %+v\n", r)
	}
	for _, r := range w.tierRules {
		fmt.Fprintf(&b, "tier rule %+v\n", r)
	}
	for _, s := range w.services {
		fmt.Fprintf(&b, "service %+v\n", s)
	}
	return b.String()
}

// chance returns true with a probability in percent.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// newWorld returns a world of two tenants, which have the same subnets unless they share external routers, with
// networks of all modes of the landscape, and rules, some of equal priorities.
func newWorld(r *rand.Rand, l landscape, nodes []*node) *world {
	w := &world{landscape: l, rand: r}
	for tag := range uint16(4) {
		w.networks = append(w.networks, w.newNetwork(tag))
	}
	for i := range plugs {
		e := endpoint(fmt.Sprint("e", i), pick(r, w.networks...), byte(i+1), uint16(r.IntN(4)))
		e.VTEP = nodes[i%len(nodes)].vtep
		if chance(r, 15) {
			e.Limits.DSCP = uint8(1 + r.IntN(MaxDSCP))
		}
		if chance(r, 50) {
			e.Tiers = Tracked // must make no difference
		}
		w.endpoints = append(w.endpoints, e)
	}
	for i := range w.networks {
		w.takeFamilies(&w.networks[i])
	}
	for i := range r.IntN(31) {
		w.rules = append(w.rules, w.newRule(i, 1+r.IntN(MaxPriority/4)))
	}
	for i := range w.networks {
		w.addService(i)
	}
	return w
}

func (w *world) newNetwork(tag uint16) Network {
	tenant, octet := tag/2, fmt.Sprint(tag%2+1)
	n := network(fmt.Sprintf("n%d.t%d", tag%2, tenant), fmt.Sprint("t", tenant), tenant+1, tag+1, octet)
	if w.encap == VLAN && w.routes() {
		n = network(n.ID, n.Tenant, SharedVRF, n.Tag, fmt.Sprint(tag+1))
	}
	n.Mode = pick(w.rand, w.modes...)
	if n.Encap = w.encap; n.Encap == VLAN {
		n.VNI = 0
	}
	return n
}

// takeFamilies removes an IP family from some networks and endpoints, and some gateways.
func (w *world) takeFamilies(n *Network) {
	r := w.rand
	has4, has6 := true, true
	switch chosen := r.IntN(100); {
	case chosen < 15:
		has4, n.Subnet, n.Gateway = false, netip.Prefix{}, netip.Addr{}
	case chosen < 25:
		has6, n.Subnet6, n.Gateway6 = false, netip.Prefix{}, netip.Addr{}
	case chosen < 35:
		n.Gateway = netip.Addr{}
	case chosen < 45:
		n.Gateway6 = netip.Addr{}
	}
	for i := range w.endpoints {
		switch e := &w.endpoints[i]; {
		case e.Network != n.ID:
		case !has4:
			e.IPv4 = netip.Addr{}
		case !has6 || chance(r, 20):
			e.IPv6 = netip.Addr{}
		}
	}
}

func (w *world) newRule(number, priority int) Rule {
	r := w.rand
	prefixes := []netip.Prefix{{}, {}, {}, {}, prefix("10.1.1.0/24"), prefix("10.1.2.4/30"), prefix("fd00:1::/64")}
	for _, a := range append(pick(r, w.endpoints...).addresses(), pick(r, beyondUs...)) {
		prefixes = append(prefixes, inet.Host(a))
	}
	rule := Rule{
		ID: fmt.Sprint("r", number), Priority: priority, Allow: chance(r, 50),
		SrcGroup: uint16(r.IntN(4)), DstGroup: uint16(r.IntN(4)), Protocol: pick[uint8](r, 0, 1, 6, 6, 17, 132),
		Src: pick(r, prefixes...), Dst: pick(r, prefixes...),
	}
	if rule.Protocol == 6 || rule.Protocol == 17 || rule.Protocol == 132 {
		rule.SrcPort, rule.DstPort = pick[uint16](r, 0, 0, 0, 80), pick[uint16](r, 0, 0, 80, 53)
	}
	if rule.Protocol == 6 && chance(r, 40) {
		rule.TCPFlags = "syn,!ack"
	}
	if rule.Src.IsValid() && rule.Dst.IsValid() && rule.Src.Addr().Is4() != rule.Dst.Addr().Is4() {
		rule.Dst = netip.Prefix{}
	}
	if chance(r, 30) && rule.Dst == prefix("10.1.1.0/24") {
		rule.Dst6 = prefix("fd00:1::/64") // a dual-stack network
	}
	return rule
}

// addService adds a service with random ports and providers, if its network can have one.
func (w *world) addService(i int) {
	r, in := w.rand, w.networks[i]
	four, six := in.Subnet.Addr(), in.Subnet6.Addr()
	vip := pick(r, addresses(four, six)...).AsSlice()
	vip[len(vip)-1] = 200
	address, _ := netip.AddrFromSlice(vip) // of 4 or of 16 bytes
	if !in.Mode.Bridged() && !in.routes(address) {
		return
	}
	s := Service{ID: fmt.Sprintf("s%d:%s", i, in.Tenant), Mode: in.Mode, Encap: in.Encap, VRF: in.VRF, Tag: in.Tag}
	for _, port := range []ServicePort{{Protocol: 6, Port: 80}, {Protocol: 17, Port: 53}, {Protocol: 17, Port: 80}} {
		if port.Target = pick[uint16](r, 80, 8080, 5353); chance(r, 60) {
			port.Address, port.From = address, FromPods
			s.Ports = append(s.Ports, port)
		}
	}
	if len(s.Ports) == 0 {
		return
	}
	w.services = append(w.services, w.provided(s).Numbered(noneTaken))
}

// provided gives a service other providers, from none to all possible ones. Former ones drain.
func (w *world) provided(s Service) Service {
	had, share := slices.Concat(s.Providers, s.Draining), pick(w.rand, 0, 20, 50, 100)
	s.Providers, s.Draining = nil, nil
	for _, e := range w.endpoints {
		switch a := like(e, vipOf(s)); {
		case !w.inReach(s, e):
		case chance(w.rand, share):
			s.Providers = append(s.Providers, a)
		case slices.Contains(had, a):
			s.Draining = append(s.Draining, a)
		}
	}
	slices.SortFunc(s.Providers, netip.Addr.Compare)
	slices.SortFunc(s.Draining, netip.Addr.Compare)
	return s
}

func (w *world) in(e Endpoint) Network {
	return w.networks[slices.IndexFunc(w.networks, func(n Network) bool { return n.ID == e.Network })]
}
