package hostaccess

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/utils/fault"
)

// Where Open vSwitch forwards packets itself, the kernel receives what comes by its links as well. For a packet of a tunnel it
// asks its tables and its connection tracker, and then finds nobody who listens. That is no small part of what the packet
// costs the node. So it ends at the link, where Open vSwitch has read it already.

// keepTunnels keeps the table that ends what tunnels bring, or its absence. Without nft(8) packets cost what they cost.
func (m *Manager) keepTunnels(ctx context.Context) error {
	if m.TunnelLinks == nil {
		return nil
	}
	links, err := m.TunnelLinks()
	if err != nil {
		return err
	}
	switch {
	case len(links) > 0:
		err = m.tunnels.apply(ctx, tunnelTable(links, m.VTEP, m.Closed.VXLANPort))
		m.ends = true
	case m.ends:
		err = m.tunnels.remove(ctx)
		m.ends = err != nil && !fault.Is(err, fault.Unsupported)
	}
	return exceptUnsupported(err)
}

// tunnelTable is the table of tunnels to an address that come by links.
func tunnelTable(links []string, vtep netip.Addr, port uint16) table {
	t := table{links: map[string]string{}}
	for i, link := range links {
		c := chain{name: fmt.Sprint("tunnels", i), kind: knftables.FilterType, hook: knftables.IngressHook, priority: knftables.FilterPriority, rules: []rule{{
			text:    knftables.Concat(version(netip.PrefixFrom(vtep, 0)), "daddr", vtep, "udp dport", port, "drop"),
			comment: "Open vSwitch has read it",
		}}}
		t.chains, t.links[c.name] = append(t.chains, c), link
	}
	return t
}
