package agent

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Services of routed VLANs are reached from outside by the nodes that have providers, and there
// by these alone: what the uplink brings does not leave by it again.

// announcedBy are the ports that a service has on this node for those who come in by the
// uplink. Without a provider here it has none, and routers are not told of its addresses.
func (c *cache) announcedBy(ports []pipeline.ServicePort, providers, draining []netip.Addr) (all []pipeline.ServicePort) {
	for _, p := range ports {
		if p.From != pipeline.FromOutside {
			continue
		}
		p.Serving, p.Draining, p.Target = c.ofThisNode(providers, p), c.ofThisNode(draining, p), 0
		if len(p.Serving)+len(p.Draining) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// ofThisNode are the providers that are endpoints of this node and serve a port.
func (c *cache) ofThisNode(providers []netip.Addr, p pipeline.ServicePort) (some []netip.AddrPort) {
	for _, a := range providers {
		if a.Is4() == p.Address.Is4() && c.here[a] > 0 {
			some = append(some, netip.AddrPortFrom(a, p.Target))
		}
	}
	return some
}

// comesOrGoes counts the addresses of an endpoint of this node in (1) or out (-1).
func (c *cache) comesOrGoes(e endpoint, step int) {
	if e.host != c.host {
		return
	}
	for _, a := range []netip.Addr{e.part.IPv4, e.part.IPv6} {
		if !a.IsValid() {
			continue
		}
		if c.here[a] += step; c.here[a] == 0 {
			delete(c.here, a)
		}
		for service, providers := range c.providers {
			if _, serves := providers[a]; serves {
				c.mark(pipeline.KindService, service)
			}
		}
	}
}
