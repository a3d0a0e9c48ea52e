package hostaccess

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/utils/fault"
)

// RouterARP lets one interface of the host alone answer ARP for an address. By itself Linux answers for an address of the host
// at any interface, and a setting against that is gone with the interface that has it: whenever ovs-vswitchd restarts, the local
// port of a bridge is a new one. Without nft(8) those settings have to do.
type RouterARP struct{ rules rules }

// NewRouterARP makes one; nothing happens before Keep.
func NewRouterARP() *RouterARP { return &RouterARP{rules{family: knftables.ARPFamily}} }

// Keep drops requests for the IPv4 address that come by another interface than this one.
func (r *RouterARP) Keep(ctx context.Context, address netip.Addr, link string) error {
	return exceptUnsupported(r.rules.apply(ctx, table{chains: []chain{{
		name: "router", kind: knftables.FilterType, hook: knftables.InputHook, priority: knftables.FilterPriority, rules: []rule{{
			text:    knftables.Concat("iifname !=", quoted(link), "arp operation request arp daddr ip", address, "drop"),
			comment: fmt.Sprintf("%s answers for its address", link),
		}},
	}}}))
}

// Remove lets all interfaces answer again. A kernel that knows no such tables has none.
func (r *RouterARP) Remove(ctx context.Context) error {
	if err := r.rules.open(); err != nil || r.rules.list(ctx, table{}) == "" {
		return exceptUnsupported(err)
	}
	return r.rules.remove(ctx)
}

func exceptUnsupported(err error) error {
	if fault.Is(err, fault.Unsupported) {
		return nil
	}
	return err
}
