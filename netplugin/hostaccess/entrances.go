package hostaccess

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// How services are reached from the host itself, and from outside through the host:
//
//   - External addresses are routed to the switch; so are cluster addresses of tenants in which the host has no
//     access network, but only for packets of the host itself.
//   - Packets to an address of the host are translated: node ports to the address of node ports at the switch, UDP
//     node ports each to an address of its own (pipeline.StandIns).
//   - So are ports of an address that a load balancer has added to an interface of the host.
//
// The switch chooses the provider of a connection; providers are not known here.

const (
	setExternal  = "external"
	setExternal6 = "external6"
	mapNodePorts = "node-ports"     // protocol and port -> address at the switch; IPv6: with a 6 appended
	mapBalanced  = "load-balancers" // address of load balancers, protocol and port -> address at the switch; likewise
)

// entrances are the services that the host forwards to the switch, and the egress interface that it uses.
type entrances struct {
	agent.Entrances
	outside pipeline.Outside
	at      []netip.Prefix // addresses of the host with node ports
}

// Everywhere returns the prefixes of all addresses of the host, for [Config].
func Everywhere() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// nodePortsAt returns the addresses of the host with node ports: those configured, else its primary ones in
// Kubernetes.
func (m *Manager) nodePortsAt(primary []netip.Addr) (at []netip.Prefix) {
	if m.NodePortsAt != nil {
		return m.NodePortsAt
	}
	if len(primary) == 0 && m.Own.IsValid() {
		primary = []netip.Addr{m.Own}
	}
	for _, a := range primary {
		at = append(at, inet.Host(a))
	}
	return at
}

// hasNodePorts reports whether an address has node ports, provided that it is the host's own.
func (e entrances) hasNodePorts(a netip.Addr) bool {
	return slices.ContainsFunc(e.at, func(p netip.Prefix) bool { return p.Contains(a) })
}

// routesTo returns routes to addresses of services or pods by the egress interface, with the host's address on the
// link as source. No neighbours are resolved there.
func routesTo(addresses ...netip.Addr) (all []wantedRoute) {
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, a := range slices.Compact(addresses) {
		all = append(all, wantedRoute{to: inet.Host(a)})
	}
	return all
}

// routed returns the addresses of services for which there is a route.
func (e entrances) routed() []netip.Addr { return slices.Concat(e.Addresses, e.Cluster) }

func (e entrances) sets() []set {
	four, six := set{name: setExternal, kind: "ipv4_addr"}, set{name: setExternal6, kind: "ipv6_addr"}
	for _, a := range e.Addresses {
		if a.Is4() {
			four.elements = append(four.elements, a.String())
		} else {
			six.elements = append(six.elements, a.String())
		}
	}
	all := []set{four, six}
	for _, p := range e.outside.Prefixes() {
		kind := addressKind(p)
		ports := set{name: mapNodePorts + suffix(p), kind: "inet_proto . inet_service", leadsTo: kind}
		for _, port := range e.NodePorts {
			ports.elements, ports.values = append(ports.elements, key(port)), append(ports.values, e.nodePort(p, port).String())
		}
		balanced := set{name: mapBalanced + suffix(p), kind: kind + " . inet_proto . inet_service", leadsTo: kind}
		for _, b := range e.Balanced {
			if at, known := e.StandIns.Balancer(p, b.Address); known && b.Address.Is4() == p.Addr().Is4() {
				balanced.elements, balanced.values = append(balanced.elements, fmt.Sprint(b.Address, " . ", key(b.NodePort))), append(balanced.values, at.String())
			}
		}
		all = append(all, ports, balanced)
	}
	return all
}

// datagrams returns the UDP ports with the addresses to which they are translated.
func (e entrances) datagrams() (all []string) {
	for _, s := range e.sets() {
		for i, element := range s.elements {
			if strings.Contains(element, inet.TransportName(inet.UDP)+" . ") {
				all = append(all, element+" : "+s.values[i])
			}
		}
	}
	return all
}

// key returns a port as an element of a set.
func key(p agent.NodePort) string { return fmt.Sprint(inet.TransportName(p.Protocol), " . ", p.Port) }

// nodePort returns the address of a node port at the switch.
func (e entrances) nodePort(private netip.Prefix, p agent.NodePort) netip.Addr {
	at, _ := e.StandIns.NodePort(private, p.Protocol, p.Port)
	return at
}

// letIn returns the rules that accept forwarded packets to services.
func (e entrances) letIn() (all []rule) {
	for _, r := range []string{
		"ip daddr @" + setExternal, "ip6 daddr @" + setExternal6, "ct status dnat " + e.nodePorts(0), "ct status dnat " + e.nodePorts(1),
	} {
		all = append(all, rule{knftables.Concat("oifname", quoted(outsideLink), r, "accept"), "services"})
	}
	return all
}

// nodePorts matches packets to the node port addresses at the switch, of IPv4 or IPv6.
func (e entrances) nodePorts(family int) string {
	p := []netip.Prefix{e.outside.Prefix, e.outside.Prefix6}[family]
	return knftables.Concat(version(p), "daddr", pipeline.AllStandIns(p))
}

// chains translate node ports at the host's addresses to the switch's addresses, for packets from outside and of
// the host itself. Loopback addresses are not translated: replies could not be routed back. Packets of the host
// itself to an address of load balancers get its address on the link as source, like those to an address on no
// interface. Other ports of such an address belong to the host.
func (e entrances) chains() []chain {
	var in, here, hide []rule
	for _, p := range []netip.Prefix{e.outside.Prefix, e.outside.Prefix6} {
		const comment = "node ports of services"
		ip, itself := version(p), loopback[p.Addr().Is4()]
		balanced := rule{knftables.Concat("fib daddr type local dnat", ip, "to", ip, "daddr . meta l4proto . th dport map @"+mapBalanced+suffix(p)), "services at addresses of load balancers that are the host's"}
		in, here = append(in, balanced), append(here, balanced)
		hide = append(hide, rule{knftables.Concat("oifname", quoted(outsideLink), "ct status dnat", ip, "daddr", pipeline.BalancerStandIns(p), "fib saddr type local",
			"snat", ip, "to", pipeline.OutsideAddress(p, pipeline.OutsideHost)), "the host to services"})
		dnat := knftables.Concat("fib daddr type local dnat", ip, "to meta l4proto . th dport map @"+mapNodePorts+suffix(p))
		for _, own := range e.places(p) {
			in = append(in, rule{knftables.Concat(own, dnat), comment})
			here = append(here, rule{knftables.Concat(own, ip, "daddr !=", itself, dnat), comment})
		}
	}
	return []chain{
		{"node-ports-in", knftables.NATType, knftables.PreroutingHook, leadPriority, notFromInfra(in)},
		{"node-ports-here", knftables.NATType, knftables.OutputHook, leadPriority, here},
		{"load-balancers-hide", knftables.NATType, knftables.PostroutingHook, hidePriority, hide},
		{"external-in", knftables.NATType, knftables.PreroutingHook, stayPriority, stay},
		{"external-here", knftables.NATType, knftables.OutputHook, stayPriority, stay},
	}
}

// stay are rules that prevent other chains from translating external addresses, which are routed.
var stay = []rule{
	{knftables.Concat("ip daddr @"+setExternal, "dnat ip to ip daddr"), "external addresses of services"},
	{knftables.Concat("ip6 daddr @"+setExternal6, "dnat ip6 to ip6 daddr"), "external addresses of services"},
}

// places return matches of the destinations that may have node ports, of a prefix's IP family. Another match
// checks that the address is the host's own.
func (e entrances) places(of netip.Prefix) (matches []string) {
	for _, p := range e.at {
		switch {
		case p.Addr().Is4() != of.Addr().Is4():
		case p.Bits() == 0:
			matches = append(matches, map[bool]string{true: "meta nfproto ipv4", false: "meta nfproto ipv6"}[p.Addr().Is4()])
		default:
			matches = append(matches, knftables.Concat(version(p), "daddr", p))
		}
	}
	return matches
}

// servable lists the ports at the host's own addresses that it does not need itself.
func (c Closed) servable(all []agent.Balanced) []agent.Balanced {
	return slices.DeleteFunc(slices.Clone(all), func(b agent.Balanced) bool {
		return c.Holds(mastercfg.HostPort{Protocol: inet.TransportName(b.Protocol), Port: b.Port})
	})
}

// none reports whether there are no such services.
func (e entrances) none() bool { return len(e.Addresses)+len(e.NodePorts)+len(e.Balanced) == 0 }

// with adds the sets and chains of services to the table of an egress interface.
func (t table) with(e entrances) table {
	if e.none() {
		return t
	}
	t.sets = slices.Concat(t.sets, e.sets())
	t.chains = slices.Concat(t.chains, e.chains())
	i := slices.IndexFunc(t.chains, func(c chain) bool { return c.name == chainEnter })
	t.chains[i].rules = slices.Concat(e.letIn(), t.chains[i].rules)
	return t
}
