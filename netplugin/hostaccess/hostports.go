package hostaccess

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// HostPort is a port of the host that is forwarded to an endpoint.
type HostPort struct {
	mastercfg.HostPort
	Number     uint32 // of the endpoint's port in the switch
	IPv4, IPv6 bool   // whether the endpoint has an address of the IP family
	Endpoint   string // its id
}

// has reports whether the endpoint has an address of the same IP family as like.
func (p HostPort) has(like netip.Addr) bool { return like.Is4() && p.IPv4 || like.Is6() && p.IPv6 }

// leads reports whether packets of an address's IP family are forwarded to the endpoint.
func (p HostPort) leads(like netip.Addr) bool {
	return p.has(like) && (!p.Address.IsValid() || p.Address.Is4() == like.Is4())
}

// Maps of host ports: those at one address of the host, and those at all of them. Those of
// IPv6 have a 6 at the end.
const (
	mapHostPortsAt = "host-ports-at"
	mapHostPorts   = "host-ports"
)

// loopback are the addresses of the host for itself.
var loopback = map[bool]string{true: "127.0.0.0/8", false: "::1"} // by whether it is IPv4

// hostPorts are translated to the private addresses of endpoints at the host, so that endpoints of several tenants
// may have the same address.
type hostPorts struct {
	all     []HostPort
	outside pipeline.Outside
}

// sets returns maps from address, protocol and port to private address and port.
func (h hostPorts) sets() (all []set) {
	for _, p := range h.outside.Prefixes() {
		ip := addressKind(p)
		at := set{name: mapHostPortsAt + suffix(p), kind: ip + " . inet_proto . inet_service", leadsTo: ip + " . inet_service"}
		everywhere := set{name: mapHostPorts + suffix(p), kind: "inet_proto . inet_service", leadsTo: ip + " . inet_service"}
		for _, port := range h.all {
			if !port.leads(p.Addr()) {
				continue
			}
			to, key := &everywhere, fmt.Sprint(port.Protocol, " . ", port.Port)
			if port.Address.IsValid() {
				to, key = &at, fmt.Sprint(port.Address, " . ", key)
			}
			to.elements = append(to.elements, key)
			to.values = append(to.values, fmt.Sprint(pipeline.OutsideAddress(p, port.Number), " . ", port.To))
		}
		all = append(all, at, everywhere)
	}
	return all
}

// letIn returns the rules that accept forwarded packets with a translation by these rules.
func (h hostPorts) letIn() (all []rule) {
	for _, p := range h.outside.Prefixes() {
		all = append(all, rule{knftables.Concat("oifname", quoted(outsideLink), "ct status dnat", version(p), "daddr", p, "accept"), "host ports"})
	}
	return all
}

// chains translate packets to host ports, from outside and of the host itself.
//
// Sources are translated where the endpoint could not reply to them. Packets of the host itself, also from a
// loopback address, get its address on the link, which is exempt from policies. Packets of endpoints of this node,
// which have private addresses there, get an address to which policies apply. An IPv6 loopback address is not
// translated: such packets cannot leave the host at all.
func (h hostPorts) chains() []chain {
	var lead, hide []rule // lead: for packets of the host itself
	for _, p := range h.outside.Prefixes() {
		ip, notItself := version(p), ""
		if p.Addr().Is6() {
			notItself = "ip6 daddr != " + loopback[false]
		}
		lead = append(lead,
			// Only addresses of the host: otherwise a host port would receive packets for a service, or for a machine
			// outside.
			rule{knftables.Concat("fib daddr type local dnat", ip, "to", ip, "daddr . meta l4proto . th dport map @"+mapHostPortsAt+suffix(p)), "host ports at one address"},
			rule{knftables.Concat(notItself, "fib daddr type local dnat", ip, "to meta l4proto . th dport map @"+mapHostPorts+suffix(p)), "host ports"})
		led := knftables.Concat("oifname", quoted(outsideLink), "ct status dnat", ip, "daddr", p, ip, "daddr !=", pipeline.AllStandIns(p))
		hide = append(hide,
			rule{knftables.Concat(led, ip, "saddr", p, ip, "saddr !=", pipeline.OutsideAddress(p, pipeline.OutsideHost), "snat", ip, "to", pipeline.PodsAsHost(p)), "endpoints to a host port"},
			rule{knftables.Concat(led, "fib saddr type local", "snat", ip, "to", pipeline.OutsideAddress(p, pipeline.OutsideHost)), "the host to a host port"})
	}
	return []chain{
		{"host-ports-in", knftables.NATType, knftables.PreroutingHook, leadPriority, notFromInfra(lead)},
		{"host-ports-here", knftables.NATType, knftables.OutputHook, leadPriority, lead},
		{"host-ports-hide", knftables.NATType, knftables.PostroutingHook, hidePriority, hide},
	}
}

// notFromInfra restricts rules to packets that do not arrive on the host's interfaces in infra networks. Those
// have an endpoint's own address as source: if such a packet was translated to another endpoint, the reply would
// be sent directly, without the translation back. TCP would not connect, and UDP would bypass the policies.
func notFromInfra(rules []rule) (all []rule) {
	for _, r := range rules {
		all = append(all, rule{knftables.Concat("iifgroup !=", infraGroup, r.text), r.comment})
	}
	return all
}

// loopbackGuard protects the host's loopback addresses from endpoints. It is present without host ports, too: they
// may just have been removed while the kernel still accepts such packets.
func loopbackGuard() chain {
	const why = "no endpoint reaches the host's loopback addresses"
	return chain{"host-ports-guard", knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority, []rule{
		// The kernel accepts packets with loopback addresses on this link, for replies to the host's own.
		{knftables.Concat("iifname", quoted(outsideLink), "ip daddr", loopback[true], "drop"), why},
		// And on all links with the setting of all (route_localnet), as kube-proxy leaves it. In a bridged infra network
		// endpoints send to the host's interface whatever they want.
		{knftables.Concat("iifgroup", infraGroup, "ip daddr", loopback[true], "drop"), why},
	}}
}

// withHostPorts adds the sets and chains of host ports to the table of an egress interface.
func (t table) withHostPorts(h hostPorts) table {
	if len(h.all) == 0 {
		return t
	}
	t.sets = slices.Concat(t.sets, h.sets())
	t.chains = slices.Concat(t.chains, h.chains())
	i := slices.IndexFunc(t.chains, func(c chain) bool { return c.name == chainEnter })
	t.chains[i].rules = slices.Concat(h.letIn(), t.chains[i].rules)
	return t
}

// routeLoopback sets whether the kernel routes packets from loopback addresses to the egress interface, and
// accepts the replies, as host ports require.
func routeLoopback(on bool) error {
	const setting = "ipv4/conf/" + outsideLink + "/route_localnet"
	want := map[bool]string{true: "1", false: "0"}[on]
	if read(setting) == want {
		return nil
	}
	return write(setting, want)
}

// available lists the host ports that the host does not need itself.
func (c Closed) available(all []HostPort) []HostPort {
	return slices.DeleteFunc(slices.Clone(all), func(p HostPort) bool { return c.Holds(p.HostPort) })
}

// hostPorts lists the host ports in a fixed order.
func (m *Manager) hostPorts() ([]HostPort, error) {
	if m.HostPorts == nil {
		return nil, nil
	}
	all, err := m.HostPorts()
	slices.SortFunc(all, func(a, b HostPort) int { return strings.Compare(a.String(), b.String()) })
	return all, err
}
