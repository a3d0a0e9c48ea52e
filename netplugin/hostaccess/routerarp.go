package hostaccess

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/knftables"
)

// RouterARP makes only one interface of the host answer ARP for an address. By default Linux answers on any
// interface. The sysctl against that is lost with the interface, and the local port of a bridge is recreated
// whenever ovs-vswitchd restarts, so the sysctl is used only without nft(8).
type RouterARP struct{ rules rules }

// NewRouterARP returns one; it has no effect before Keep.
func NewRouterARP() *RouterARP { return &RouterARP{rules{family: knftables.ARPFamily}} }

// Keep drops ARP requests for the IPv4 address that arrive on interfaces other than link.
func (r *RouterARP) Keep(ctx context.Context, address netip.Addr, link string) error {
	return exceptUnsupported(r.rules.apply(ctx, table{chains: []chain{{
		name: "router", kind: knftables.FilterType, hook: knftables.InputHook, priority: knftables.FilterPriority, rules: []rule{{
			text:    knftables.Concat("iifname !=", quoted(link), "arp operation request arp daddr ip", address, "drop"),
			comment: fmt.Sprintf("%s answers for its address", link),
		}},
	}}}))
}

// Remove lets all interfaces answer again. A kernel without such tables is not an error.
func (r *RouterARP) Remove(ctx context.Context) error {
	if err := r.rules.open(); err != nil || r.rules.list(ctx, table{}) == "" {
		return exceptUnsupported(err)
	}
	return r.rules.remove(ctx)
}
