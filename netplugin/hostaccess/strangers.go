package hostaccess

import (
	"context"
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/utils/fault"
)

// What comes to the port of tunnels from a machine that is no node ends at the host, where the kernel receives tunnels. The
// switch drops it, too, once it has taken it out of its tunnel, which costs more, and says nothing of what a fault of
// the kernel's tunnels makes of it. The set of nodes is the one that the switch believes.
//
// Sets are changed in one transaction with the rule, and stay when the agent ends. An agent that starts leaves them until it knows all
// ends of tunnels, also those of nodes whose own agents are away, so nothing is lost from nodes that are known. A node that comes is in the
// set when the host is looked at next, which is at once unless it is being looked at.
//
// Where Open vSwitch forwards packets itself, it reads them from links, before nftables is asked.

// setVTEPs has the nodes' ends of tunnels; that of IPv6 has a 6 at the end.
const setVTEPs = "vteps"

// keepStrangers keeps the table, or its absence. Without nft(8) the switch alone drops what strangers send.
func (m *Manager) keepStrangers(ctx context.Context, access agent.HostAccess) error {
	if m.KernelReceives == nil {
		return nil
	}
	receives, known := m.KernelReceives()
	var err error
	switch {
	case !known || !access.AllVTEPs: // what an earlier process has left stays
	case receives:
		err = m.strangers.apply(ctx, strangerTable(access.VTEPs, m.Closed.VXLANPort))
		m.excludes = true
	case m.excludes:
		err = m.strangers.remove(ctx)
		m.excludes = err != nil && !fault.Is(err, fault.Unsupported)
	}
	return exceptUnsupported(err)
}

// strangerTable is the table that lets nobody but nodes send to the port of tunnels. The kernel listens there in both versions of IP.
func strangerTable(vteps []netip.Addr, port uint16) table {
	four, six := set{name: setVTEPs, kind: "ipv4_addr"}, set{name: setVTEPs + "6", kind: "ipv6_addr"}
	for _, vtep := range vteps {
		if vtep.Is4() {
			four.elements = append(four.elements, vtep.String())
		} else {
			six.elements = append(six.elements, vtep.String())
		}
	}
	dropped := func(ip string, nodes set) rule {
		return rule{knftables.Concat("udp dport", port, ip, "saddr != @"+nodes.name, "counter drop"), "tunnels are those of nodes"}
	}
	return table{sets: []set{four, six}, chains: []chain{
		{"strangers", knftables.FilterType, knftables.InputHook, knftables.FilterPriority, []rule{dropped("ip", four), dropped("ip6", six)}},
	}}
}
