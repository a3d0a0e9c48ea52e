package agent

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Services of one tenant may have ports of UDP at one external address. Then each of them has to know
// that there are others: a later fragment does not say whose it is.

// udpPlace is where a port is one of UDP, as a key of the index; empty: it is none, or is at an address that
// services share with others, or with machines, in any case.
func udpPlace(tenant string, p pipeline.ServicePort) string {
	if p.Protocol != openflow.ProtoUDP || p.Shared || p.Machine {
		return ""
	}
	return tenant + " " + p.Address.String()
}

// placeUDP adds a port of a service to the index or removes it, and has all services there looked at.
func (c *cache) placeUDP(tenant string, p pipeline.ServicePort, service string, change func(x index, place, service string)) {
	place := udpPlace(tenant, p)
	if place == "" {
		return
	}
	change(c.udpAt, place, service)
	for other := range c.udpAt[place] {
		c.mark(pipeline.KindService, other)
	}
}

// sharesUDPAddress tells whether other services have UDP ports at the address of a UDP port.
func (c *cache) sharesUDPAddress(tenant string, p pipeline.ServicePort) bool {
	return len(c.udpAt[udpPlace(tenant, p)]) > 1
}
