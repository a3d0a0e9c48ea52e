package hostaccess

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/knftables"
)

// With a userspace datapath, the kernel receives a copy of each packet of its links. A tunnelled packet would pass
// nftables and conntrack until no socket is found for it, which is a large part of the packet's cost for the node.
// So a netdev chain drops the copy at the link, where Open vSwitch has already read the packet.

// keepTunnels writes or removes the table that drops these copies. Without nft(8) they are not dropped.
func (m *Manager) keepTunnels(ctx context.Context) error {
	if m.TunnelLinks == nil {
		return nil
	}
	links, err := m.TunnelLinks()
	if err != nil {
		return err
	}
	if len(links) == 0 {
		return m.tunnels.drop(ctx)
	}
	return m.tunnels.write(ctx, tunnelTable(links, m.VTEP, m.Closed.VXLANPort))
}

// tunnelTable returns the table that drops tunnelled packets to the VTEP that arrive on links.
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
