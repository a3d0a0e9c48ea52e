package hostaccess

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// HostPort is a port of the host that leads to an endpoint.
type HostPort struct {
	mastercfg.HostPort
	Number     uint32 // of the endpoint's port in the switch
	IPv4, IPv6 bool   // whether the endpoint has an address
}

// Maps of host ports: those at one address of the host, and those at all of them. Those of
// IPv6 have a 6 at the end.
const (
	mapHostPortsAt = "host-ports-at"
	mapHostPorts   = "host-ports"
)

// loopback are the addresses by which the host speaks to itself.
var loopback = map[bool]string{true: "127.0.0.0/8", false: "::1"} // whether of IPv4

// hostPorts lead into endpoints by the private addresses that the host knows them by, so that
// endpoints of several tenants may have one address.
type hostPorts struct {
	all     []HostPort
	outside pipeline.Outside
}

// sets are maps from address, protocol and port to private address and port.
func (h hostPorts) sets() (all []set) {
	for _, p := range h.outside.Prefixes() {
		ip, suffix := "ipv4_addr", ""
		if p.Addr().Is6() {
			ip, suffix = "ipv6_addr", "6"
		}
		at := set{name: mapHostPortsAt + suffix, kind: ip + " . inet_proto . inet_service", leadsTo: ip + " . inet_service"}
		everywhere := set{name: mapHostPorts + suffix, kind: "inet_proto . inet_service", leadsTo: ip + " . inet_service"}
		for _, port := range h.all {
			if p.Addr().Is4() && !port.IPv4 || p.Addr().Is6() && !port.IPv6 {
				continue
			}
			to, key := &everywhere, fmt.Sprint(port.Protocol, " . ", port.Port)
			if port.Address.IsValid() {
				if port.Address.Is4() != p.Addr().Is4() {
					continue
				}
				to, key = &at, fmt.Sprint(port.Address, " . ", key)
			}
			to.elements = append(to.elements, key)
			to.values = append(to.values, fmt.Sprint(pipeline.OutsideAddress(p, port.Number), " . ", port.To))
		}
		all = append(all, at, everywhere)
	}
	return all
}

// letIn lets through what a rule has translated.
func (h hostPorts) letIn() (all []rule) {
	for _, p := range h.outside.Prefixes() {
		all = append(all, rule{knftables.Concat("oifname", quoted(outsideLink), "ct status dnat", version(p), "daddr", p, "accept"), "host ports"})
	}
	return all
}

// chains translate what is for a host port, from outside and from the host itself. Who has
// an address that the endpoint could not answer to becomes the host: itself at its loopback
// address, and the endpoints of this node. An IPv6 loopback address cannot be left at all.
func (h hostPorts) chains() []chain {
	var lead, hide []rule
	for _, p := range h.outside.Prefixes() {
		ip, suffix, notItself := version(p), "", ""
		if p.Addr().Is6() {
			suffix, notItself = "6", "ip6 daddr != "+loopback[false]
		}
		lead = append(lead,
			rule{knftables.Concat("dnat", ip, "to", ip, "daddr . meta l4proto . th dport map @"+mapHostPortsAt+suffix), "host ports at one address"},
			rule{knftables.Concat(notItself, "fib daddr type local dnat", ip, "to meta l4proto . th dport map @"+mapHostPorts+suffix), "host ports"})
		for _, from := range []string{loopback[p.Addr().Is4()], p.String()} {
			hide = append(hide, rule{
				text:    knftables.Concat("oifname", quoted(outsideLink), "ct status dnat", ip, "saddr", from, ip, "daddr !=", pipeline.NodePorts(p), "masquerade"),
				comment: "to a host port as the host",
			})
		}
	}
	return []chain{
		{"host-ports-in", knftables.NATType, knftables.PreroutingHook, knftables.DNATPriority, lead},
		{"host-ports-here", knftables.NATType, knftables.OutputHook, knftables.DNATPriority, lead},
		{"host-ports-hide", knftables.NATType, knftables.PostroutingHook, knftables.SNATPriority, hide},
		{"host-ports-guard", knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority, []rule{{
			// The kernel takes such packets from this link, so that it takes answers to them.
			text:    knftables.Concat("iifname", quoted(outsideLink), "ip daddr", loopback[true], "drop"),
			comment: "no endpoint reaches the host's loopback addresses",
		}}},
	}
}

// withHostPorts puts what leads into endpoints into the table of a way out.
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

// routeLoopback has the kernel send from a loopback address by the way out, and take the answers.
func routeLoopback() error {
	const setting = "ipv4/conf/" + outsideLink + "/route_localnet"
	if read(setting) == "1" {
		return nil
	}
	return write(setting, "1")
}

// forget has the host's connection tracking forget datagrams to ports that lead elsewhere
// than before: a client that goes on sending would be led there for ever.
func forget(before, now []HostPort) error {
	var stale []netlink.CustomConntrackFilter
	for _, all := range [][2][]HostPort{{before, now}, {now, before}} {
		for _, p := range all[0] {
			if p.Protocol != "udp" || slices.Contains(all[1], p) {
				continue
			}
			filter := &netlink.ConntrackFilter{}
			if err := errors.Join(filter.AddProtocol(unix.IPPROTO_UDP), filter.AddPort(netlink.ConntrackOrigDstPort, p.Port)); err != nil {
				return fmt.Errorf("forget datagrams to %s: %w", p, err)
			}
			stale = append(stale, filter)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, stale...); err != nil {
			return fmt.Errorf("forget datagrams to host ports: %w", err)
		}
	}
	return nil
}

// hostPorts lists them in an order that depends on nothing else.
func (m *Manager) hostPorts() ([]HostPort, error) {
	if m.HostPorts == nil {
		return nil, nil
	}
	all, err := m.HostPorts()
	slices.SortFunc(all, func(a, b HostPort) int { return strings.Compare(a.String(), b.String()) })
	return all, err
}
