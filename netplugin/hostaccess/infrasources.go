package hostaccess

import (
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Packets of the host itself to a cluster address have its address in an infra network as source, because of the
// route. If rules of other software, such as kube-proxy, translate the destination to an address outside of these
// networks, such as the API server's, the packet leaves by another link, where that source has no route back. So
// it is masqueraded.
//
// Endpoints of other tenants, which come by the way out or by a bridged infra network of their own, do not reach the host
// at its addresses in infra networks: services that listen only there are for the tenant of the network.

// Sets of the host's own addresses in infra networks. That of IPv6 has a 6 at the end.
const setInfraOwn = "infra-own"

// infraSources are the host's own addresses in infra networks.
type infraSources []netip.Addr

// infraSourcesOf returns the addresses recorded in the store.
func infraSourcesOf(networks []agent.HostNetwork) (all infraSources) {
	for _, n := range networks {
		if n.Endpoint == nil {
			continue
		}
		for _, text := range []string{n.Endpoint.IPAddress, n.Endpoint.IPv6Address} {
			bare, _, _ := strings.Cut(text, "/")
			if a, err := netip.ParseAddr(bare); err == nil {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// withInfraSources adds the rules for them to the table of an egress interface.
func (t table) withInfraSources(own infraSources, o pipeline.Outside) table {
	if len(own) == 0 {
		return t
	}
	hide := chain{name: "infra-hide", kind: knftables.NATType, hook: knftables.PostroutingHook, priority: hidePriority}
	for _, p := range o.Prefixes() {
		hide.rules = append(hide.rules, rule{
			text:    knftables.Concat("oifgroup !=", infraGroup, "oifname != {", quoted(outsideLink), ",", quoted("lo"), "}", version(p), "saddr @"+setInfraOwn+suffix(p), "ct status dnat", "masquerade"),
			comment: "by other links the host is known by another address",
		})
	}
	t = t.withInfraGuard(own, o.Prefixes())
	t.chains = append(t.chains, hide)
	return t
}

// withInfraGuard adds the rules that keep endpoints from these addresses, unless they are in that network, and endpoints of
// infra networks from the host's private addresses.
func (t table) withInfraGuard(own infraSources, private []netip.Prefix) table {
	const notHere = "fib daddr . iif type != local ct direction original drop" // answers to what the host has asked by that address pass
	guard := chain{name: "infra-own-guard", kind: knftables.FilterType, hook: knftables.InputHook, priority: knftables.FilterPriority}
	t.sets = slices.Clone(t.sets)
	for _, family := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		addresses := set{name: setInfraOwn + suffix(family), kind: addressKind(family)}
		for _, a := range own {
			if a.Is4() == family.Addr().Is4() {
				addresses.elements = append(addresses.elements, a.String())
			}
		}
		t.sets = append(t.sets, addresses)
		guard.rules = append(guard.rules, rule{
			text:    knftables.Concat(version(family), "daddr @"+addresses.name, notHere),
			comment: "no way to the host's addresses in infra networks",
		})
	}
	for _, p := range private {
		guard.rules = append(guard.rules, rule{
			text:    knftables.Concat(version(p), "daddr", pipeline.OutsideAddress(p, pipeline.OutsideHost), notHere),
			comment: "no endpoint of an infra network reaches the host's private address",
		})
	}
	t.chains = append(slices.Clone(t.chains), guard.fromAllEndpoints())
	return t
}
