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
// Endpoints of other tenants, which come by the way out, do not reach the host at its addresses in infra networks:
// services that listen only there are for the tenant of the network.

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
	guard := chain{name: "infra-own-guard", kind: knftables.FilterType, hook: knftables.InputHook, priority: knftables.FilterPriority}
	for _, p := range o.Prefixes() {
		addresses := set{name: setInfraOwn + suffix(p), kind: addressKind(p)}
		for _, a := range own {
			if a.Is4() == p.Addr().Is4() {
				addresses.elements = append(addresses.elements, a.String())
			}
		}
		t.sets = append(slices.Clone(t.sets), addresses)
		hide.rules = append(hide.rules, rule{
			text:    knftables.Concat("oifgroup !=", infraGroup, "oifname != {", quoted(outsideLink), ",", quoted("lo"), "}", version(p), "saddr @"+addresses.name, "ct status dnat", "masquerade"),
			comment: "by other links the host is known by another address",
		})
		guard.rules = append(guard.rules, rule{ // answers to what the host has asked by that address pass
			text:    knftables.Concat(version(p), "daddr @"+addresses.name, "ct direction original drop"),
			comment: "no way to the host's addresses in infra networks",
		})
	}
	t.chains = append(slices.Clone(t.chains), hide, guard.fromEndpoints())
	return t
}
