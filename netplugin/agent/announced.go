package agent

import (
	"net/netip"

	"github.com/contiv/netplugin/netplugin/kubeservice"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Packets from outside reach services of routed VLANs at the nodes that have providers, and a node balances
// them over its own providers only: packets from the uplink do not leave through the uplink again.

// announcedPorts returns the ports at which this node serves a service for packets from the uplink. Without a
// provider on this node there are none, and routers do not learn the service's addresses from it.
func (c *cache) announcedPorts(ports []pipeline.ServicePort, providers, draining []netip.Addr) (all []pipeline.ServicePort) {
	for _, p := range ports {
		if p.From != pipeline.FromOutside {
			continue
		}
		here := kubeservice.Chosen{Serving: c.ofThisNode(providers, p), Draining: c.ofThisNode(draining, p)}.AtMost(pipeline.ProvidersOf(len(ports)), c.host, c.attachedHere)
		p.Serving, p.Draining, p.Target = here.Serving, here.Draining, 0
		if len(p.Serving)+len(p.Draining) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// ofThisNode returns the providers that are endpoints of this node, with the target of a port.
func (c *cache) ofThisNode(providers []netip.Addr, p pipeline.ServicePort) (some []netip.AddrPort) {
	for _, a := range providers {
		if a.Is4() == p.Address.Is4() && c.routedHere(a) {
			some = append(some, netip.AddrPortFrom(a, p.Target))
		}
	}
	return some
}

// attachedHere reports whether an address may be that of an endpoint of this node, of any tenant.
func (c *cache) attachedHere(a netip.AddrPort) bool {
	return len(c.services.here[a.Addr().String()]) > 0
}

// routedHere reports whether an endpoint of this node in a routed VLAN has the address. Endpoints in networks of
// other kinds may have the same one.
func (c *cache) routedHere(a netip.Addr) bool {
	for id := range c.services.here[a.String()] {
		e := c.endpoints[id]
		if n, err := c.servedNetwork(e.netID); err == nil && routedVLAN(n) && e.problem == "" {
			return true
		}
	}
	return false
}

// indexAddresses applies change, which adds or removes, to the index of this node's addresses, for each address
// of an endpoint.
func (c *cache) indexAddresses(id string, e endpoint, change func(x index, address, id string)) {
	if e.host != c.host {
		return
	}
	for _, a := range []netip.Addr{e.part.IPv4, e.part.IPv6} {
		if a.IsValid() {
			change(c.services.here, a.String(), id)
		}
	}
	c.markServed(e)
}

// markServed marks the services that have an address of the endpoint as provider.
func (c *cache) markServed(e endpoint) {
	for service, providers := range c.services.providers {
		_, serves := providers[e.part.IPv4]
		_, serves6 := providers[e.part.IPv6]
		if serves || serves6 {
			c.mark(pipeline.KindService, service)
		}
	}
}
