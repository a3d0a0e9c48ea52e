package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// world is a model as chance made it, and the pods that are to live in it. Names
// of networks, groups and policies are the same in both tenants.
type world struct {
	landscape
	rand     *rand.Rand
	networks []worldNetwork
	groups   []worldGroup
	rules    []worldRule
	services []worldService
	pods     []*worldPod

	packet     int  // bytes of those that have to be fragmented
	unattended bool // agents do not run
}

// landscape has the common properties of all networks of a cluster.
type landscape struct{ mode, encap string }

var landscapes = []landscape{{"routing", "vxlan"}, {"bridge", "vxlan"}, {"bridge", "vlan"}, {"routing", "vlan"}}

type worldNetwork struct {
	tenant, name       string
	subnet4, subnet6   netip.Prefix // invalid: the network has not this IP family
	gateway4, gateway6 netip.Addr
	tag                int
}

type worldGroup struct {
	tenant, network, name string
	policies              []string
}

type worldRule struct {
	tenant, policy, id string
	direction, action  string
	group, network     string // of the peer; empty: any
	address            netip.Prefix
	protocol           string // empty: any
	port, priority     int
}

// worldPod is a pod of the model, with its addresses and MTU once it runs.
type worldPod struct {
	name, tenant, network, group string
	provides                     bool
	node                         int
	addresses                    []netip.Addr
	mtu                          int
}

var worldTenants = []string{"blue", "red"}

func newWorld(l landscape, seed uint64, nodes, pods int) *world {
	w := &world{landscape: l, rand: rand.New(rand.NewPCG(seed, 0))}
	for i := range 2 * len(worldTenants) {
		w.networks = append(w.networks, w.newNetwork(i))
	}
	for _, n := range w.networks {
		for g := range 2 {
			group := worldGroup{tenant: n.tenant, network: n.name, name: fmt.Sprintf("%s%d", n.name, g)}
			for _, policy := range []string{"p0", "p1"} {
				if w.chance(50) {
					group.policies = append(group.policies, policy)
				}
			}
			w.groups = append(w.groups, group)
		}
		w.services = append(w.services, w.newService(n))
	}
	for i := range w.rand.IntN(16) {
		w.rules = append(w.rules, w.newRule(i))
	}
	for i := range pods {
		w.pods = append(w.pods, w.newPod(i, i%nodes))
	}
	w.packet = choose(w, jumbo, leastCut+w.rand.IntN(mostCut-leastCut))
	return w
}

func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

func choose[T any](w *world, from ...T) T { return from[w.rand.IntN(len(from))] }

// newNetwork has the addresses of another tenant's, unless VLANs and external routers are shared.
func (w *world) newNetwork(i int) worldNetwork {
	octet := i%2 + 1
	if w.encap == "vlan" {
		octet = i + 1
	}
	n := worldNetwork{tenant: worldTenants[i/2], name: fmt.Sprint("n", i%2)}
	if w.encap == "vlan" {
		n.tag = lanVLAN + i
	}
	families := w.rand.IntN(6)
	if families != 0 {
		n.subnet4 = netip.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", octet))
	}
	if families != 1 {
		n.subnet6 = netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", octet))
	}
	if w.mode == "routing" {
		n.gateway4, n.gateway6 = n.host4(254), n.host6(254)
	}
	return n
}

func (n worldNetwork) host4(number byte) netip.Addr {
	if !n.subnet4.IsValid() {
		return netip.Addr{}
	}
	a := n.subnet4.Addr().As4()
	a[3] = number
	return netip.AddrFrom4(a)
}

func (n worldNetwork) host6(number byte) netip.Addr {
	if !n.subnet6.IsValid() {
		return netip.Addr{}
	}
	a := n.subnet6.Addr().As16()
	a[15] = number
	return netip.AddrFrom16(a)
}

func (w *world) newRule(i int) worldRule {
	r := worldRule{
		tenant: choose(w, worldTenants...), policy: choose(w, "p0", "p1"), id: fmt.Sprint("r", i),
		direction: choose(w, "in", "out"), action: choose(w, "allow", "deny"),
		protocol: choose(w, "", "icmp", "tcp", "tcp", "udp", "udp", "132"), priority: 1 + w.rand.IntN(10),
	}
	switch r.protocol {
	case "tcp", "udp":
		r.port = choose(w, 0, 7, 80)
	case "132":
		r.port = choose(w, 0, 9, 80)
	}
	switch w.rand.IntN(4) {
	case 0:
		g := choose(w, w.groups[:4]...) // both tenants have groups of these names
		r.group = g.name
	case 1:
		r.network = choose(w, "n0", "n1")
	case 2:
		r.address = netip.MustParsePrefix(choose(w, "10.1.1.0/30", "10.1.2.0/24", "10.1.3.1/32", "fd00:1::/64", "fd00:2::/126"))
	}
	return r
}

// routedVLANs reports whether tenants share one routing domain.
func (l landscape) routedVLANs() bool { return l.mode == "routing" && l.encap == "vlan" }

func (w *world) newPod(i, node int) *worldPod {
	n := choose(w, w.networks...)
	p := &worldPod{name: fmt.Sprint("w", i), tenant: n.tenant, network: n.name, node: node, provides: w.chance(40)}
	if w.chance(75) {
		p.group = fmt.Sprintf("%s%d", n.name, w.rand.IntN(2))
	}
	return p
}

func (w *world) network(tenant, name string) worldNetwork {
	for _, n := range w.networks {
		if n.tenant == tenant && n.name == name {
			return n
		}
	}
	return worldNetwork{}
}

// document is an object in the form of netctl apply.
type document struct {
	Kind     string            `json:"kind"`
	Metadata map[string]string `json:"metadata"`
	Spec     map[string]any    `json:"spec,omitempty"`
}

// documents returns all objects of a world.
func (w *world) documents() string {
	var all []document
	for _, tenant := range worldTenants {
		all = append(all, document{"tenant", map[string]string{"name": tenant}, nil})
		for _, policy := range []string{"p0", "p1"} {
			all = append(all, document{"policy", map[string]string{"tenant": tenant, "name": policy}, nil})
		}
	}
	for _, n := range w.networks {
		spec := map[string]any{"encap": w.encap}
		for field, value := range map[string]fmt.Stringer{"subnet": n.subnet4, "gateway": n.gateway4, "ipv6Subnet": n.subnet6, "ipv6Gateway": n.gateway6} {
			if text := value.String(); !strings.HasPrefix(text, "invalid") {
				spec[field] = text
			}
		}
		if n.tag != 0 {
			spec["pktTag"] = n.tag
		}
		all = append(all, document{"network", map[string]string{"tenant": n.tenant, "name": n.name}, spec})
	}
	for _, g := range w.groups {
		all = append(all, document{"endpointGroup", map[string]string{"tenant": g.tenant, "name": g.name}, map[string]any{"networkName": g.network, "policies": g.policies}})
	}
	for _, r := range w.rules {
		all = append(all, r.document())
	}
	for _, s := range w.services {
		all = append(all, s.document())
	}
	return inFile(all...)
}

// inFile returns documents one below the other.
func inFile(all ...document) string {
	var text strings.Builder
	for _, d := range all {
		line, err := json.Marshal(d)
		if err != nil {
			return err.Error() // netctl will not accept that
		}
		fmt.Fprintf(&text, "---\n%s\n", line)
	}
	return text.String()
}

func (r worldRule) document() document {
	spec := map[string]any{"direction": r.direction, "action": r.action, "priority": r.priority, "protocol": r.protocol, "port": r.port}
	side := map[string]string{"in": "from", "out": "to"}[r.direction]
	for field, value := range map[string]string{"EndpointGroup": r.group, "Network": r.network} {
		if value != "" {
			spec[side+field] = value
		}
	}
	if r.address.IsValid() {
		spec[side+"IpAddress"] = r.address.String()
	}
	return document{"rule", map[string]string{"tenant": r.tenant, "policy": r.policy, "name": r.id}, spec}
}
