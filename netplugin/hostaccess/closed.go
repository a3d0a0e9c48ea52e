package hostaccess

import (
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
)

// Closed are the ports that endpoints must not reach through the host's egress, where they have the host's
// address: the port of the tunnels, in which the VNI alone identifies the tenant of a packet; ports of other
// tunnels at the cluster's machines; and the control ports of the cluster.
type Closed struct {
	VXLANPort uint16           // UDP, at any address
	Ports     []uint16         // TCP, at the addresses of this host and at Nodes
	Nodes     []netip.Addr     // of the cluster's machines
	Agents    []netip.AddrPort // TCP, of agents of other machines whose port is none of Ports
	Own       []uint16         // TCP, open to endpoints; like Ports and VXLANPort they cannot be host ports
}

// Holds reports whether the host needs a port itself, so that it cannot be a host port.
func (c Closed) Holds(p mastercfg.HostPort) bool {
	return p.Protocol == "udp" && p.Port == c.VXLANPort ||
		p.Protocol == "tcp" && (slices.Contains(c.Ports, p.Port) || slices.Contains(c.Own, p.Port))
}

// with adds the machines and ports from the store, and those of the store's members.
func (c Closed) with(access agent.HostAccess, members stores) Closed {
	c.Ports = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Ports, access.MasterPorts, members.ports))))
	c.Own = slices.Concat(c.Own, access.HealthPorts)
	c.Agents = slices.Concat(c.Agents, access.AgentPorts)
	c.Nodes = slices.Concat(c.Nodes, access.Nodes, members.nodes)
	slices.SortFunc(c.Nodes, netip.Addr.Compare)
	c.Nodes = slices.Compact(c.Nodes)
	return c
}

// Holds is Closed.Holds, with the ports that the manager read from the store last.
func (m *Manager) Holds(p mastercfg.HostPort) bool {
	if known := m.closed.Load(); known != nil {
		return known.Holds(p)
	}
	return m.Closed.Holds(p)
}

// readClosed returns the closed ports for the present state of the store.
func (m *Manager) readClosed(access agent.HostAccess) Closed {
	known := m.Closed.with(access, m.stores)
	m.closed.Store(&known)
	return known
}

// Names of our sets.
const (
	setPorts   = "control-ports"
	setNodes   = "nodes"
	setNodes6  = "nodes6"
	setAgents  = "agents"
	setAgents6 = "agents6"
)

func (c Closed) sets() []set {
	ports, nodes, nodes6 := set{name: setPorts, kind: "inet_service"}, set{name: setNodes, kind: "ipv4_addr"}, set{name: setNodes6, kind: "ipv6_addr"}
	for _, port := range c.Ports {
		ports.elements = append(ports.elements, fmt.Sprint(port))
	}
	for _, node := range c.Nodes {
		if node.Is4() {
			nodes.elements = append(nodes.elements, node.String())
		} else {
			nodes6.elements = append(nodes6.elements, node.String())
		}
	}
	agents, agents6 := set{name: setAgents, kind: "ipv4_addr . inet_service"}, set{name: setAgents6, kind: "ipv6_addr . inet_service"}
	for _, a := range c.Agents {
		if element := fmt.Sprint(a.Addr(), " . ", a.Port()); a.Addr().Is4() {
			agents.elements = append(agents.elements, element)
		} else {
			agents6.elements = append(agents6.elements, element)
		}
	}
	return []set{ports, nodes, nodes6, agents, agents6}
}

// foreignTunnels are ports of tunnels that other software may use on a machine of the cluster: VXLAN-GPE, Geneve,
// and the kernel's default port of VXLAN.
const foreignTunnels = "{ 4790, 6081, 8472 }"

// withoutPorts matches all protocols except ICMP and those with ports. For such protocols, like GRE and ESP, the
// connection tracker has only the two addresses: tunnel packets from a machine of the cluster to this host would
// count as replies to an endpoint that has sent that machine such a packet.
const withoutPorts = "meta l4proto != { tcp, udp, sctp, icmp, icmpv6 }"

// encapsulated matches protocols of tunnels: IP in IP, IPv6, GRE, ESP, AH, EtherIP, L2TP and MPLS. The kernel unpacks such
// packets from any sender if a link such as tunl0 is up, and what was in them does not come from an endpoint any more.
const encapsulated = "meta l4proto { 4, 41, 47, 50, 51, 97, 115, 137 }"

// rulesHere returns the rules for all addresses of this host.
func (c Closed) rulesHere() chain {
	return chain{"closed-here", knftables.FilterType, knftables.InputHook, knftables.FilterPriority, slices.Concat(c.errors(), []rule{
		{"ct direction reply accept", "what the host has asked for, by whatever port"},
		{knftables.Concat("udp dport", c.VXLANPort, "drop"), "no way into tunnels"},
		{knftables.Concat("udp dport", foreignTunnels, "drop"), "no way into others' tunnels"},
		{knftables.Concat("tcp dport @"+setPorts, "drop"), "this host's control ports"},
		{knftables.Concat("iifname", quoted(outsideLink), withoutPorts, "drop"), "nor without ports"},
		{knftables.Concat(encapsulated, "drop"), "no way into others' tunnels"},
	})}.fromAllEndpoints()
}

// rulesThere returns the rules for the known addresses of other machines. In a bridged infra network, endpoints
// reach the host's interface, and the host forwards packets for other machines. If other software masquerades these, it
// retains their ports: see masqueradePorts.
func (c Closed) rulesThere() chain {
	const takesNone = "endpoints take no port of this host where others masquerade"
	fromInfra := knftables.Concat("iifgroup", infraGroup, "ct direction original")
	return chain{"closed-there", knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, slices.Concat(c.errors(), c.tooBig(), []rule{
		{knftables.Concat("udp dport", c.VXLANPort, "drop"), "no way into tunnels"},
		{knftables.Concat("ip daddr @"+setNodes, "udp dport", foreignTunnels, "drop"), "no way into others' tunnels"},
		{knftables.Concat("ip6 daddr @"+setNodes6, "udp dport", foreignTunnels, "drop"), "no way into others' tunnels"},
		{knftables.Concat("ip daddr @"+setNodes, withoutPorts, "drop"), "nor without ports, whose answers are told apart by nothing"},
		{knftables.Concat("ip6 daddr @"+setNodes6, withoutPorts, "drop"), "nor without ports, whose answers are told apart by nothing"},
		{knftables.Concat("ip daddr @"+setNodes, "tcp dport @"+setPorts, "drop"), "control ports of other nodes"},
		{knftables.Concat("ip6 daddr @"+setNodes6, "tcp dport @"+setPorts, "drop"), "control ports of other nodes"},
		{knftables.Concat("ip daddr . tcp dport @"+setAgents, "drop"), "agents of other nodes"},
		{knftables.Concat("ip6 daddr . tcp dport @"+setAgents6, "drop"), "agents of other nodes"},
		{knftables.Concat(fromInfra, "udp sport", c.VXLANPort, "drop"), takesNone},
		{knftables.Concat(fromInfra, "udp sport", foreignTunnels, "drop"), takesNone},
		{knftables.Concat(fromInfra, "tcp sport @"+setPorts, "drop"), takesNone},
	})}.fromAllEndpoints()
}
