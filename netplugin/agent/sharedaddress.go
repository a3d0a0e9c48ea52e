package agent

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Several services of a tenant may have UDP ports at one external address. Each of them has to know this,
// because later fragments have no ports: they do not identify their service.

// udpPlace returns the index key of a UDP port. It is empty for other ports, and at addresses that are shared
// with other services, or with machines, in any case.
func udpPlace(tenant string, p pipeline.ServicePort) string {
	if p.Protocol != openflow.ProtoUDP || p.Shared || p.Machine {
		return ""
	}
	return tenant + " " + p.Address.String()
}

// placeUDP adds a port of a service to the index or removes it, and marks all services at the address.
func (c *cache) placeUDP(tenant string, p pipeline.ServicePort, service string, change func(x index, place, service string)) {
	place := udpPlace(tenant, p)
	if place == "" {
		return
	}
	change(c.services.udpAt, place, service)
	for other := range c.services.udpAt[place] {
		c.mark(pipeline.KindService, other)
	}
}

// sharesUDPAddress reports whether other services have UDP ports at the address of a UDP port.
func (c *cache) sharesUDPAddress(tenant string, p pipeline.ServicePort) bool {
	return len(c.services.udpAt[udpPlace(tenant, p)]) > 1
}
