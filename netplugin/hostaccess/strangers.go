package hostaccess

import (
	"context"
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netplugin/agent"
)

// Where the kernel receives tunnels, nftables drops packets to the port of tunnels from machines that are not
// nodes ("strangers"). The switch drops them as well, after decapsulation, but that costs more, and does not
// protect from a fault in the kernel's tunnels. Both use the same set of nodes.
//
// Sets are changed in one transaction with the rule, and remain when the agent ends. An agent that starts does not
// change them until it knows the VTEPs of all nodes, also of those whose agents are down, so no packet of a known
// node is lost. A new node is in the set after the next round of the manager, which begins at once unless one is
// in progress.
//
// A userspace datapath reads packets from the links, before nftables; it is not affected.

// setVTEPs has the VTEPs of the nodes; that of IPv6 has a 6 at the end.
const setVTEPs = "vteps"

// reconcileStrangers writes or removes the table. Without nft(8), only the switch drops tunnelled packets from
// unknown machines.
func (m *Manager) reconcileStrangers(ctx context.Context, access agent.HostAccess) error {
	if m.KernelReceives == nil {
		return nil
	}
	switch receives, known := m.KernelReceives(); {
	case !known || !access.AllVTEPs: // the table of an earlier process remains
		return nil
	case receives:
		return m.strangers.write(ctx, strangerTable(access.VTEPs, m.Closed.VXLANPort))
	}
	return m.strangers.drop(ctx)
}

// strangerTable returns the table that drops packets to the port of tunnels unless they are from nodes. The kernel
// listens there on both IP families.
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
