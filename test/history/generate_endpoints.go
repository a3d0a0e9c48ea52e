package history

import (
	"fmt"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// labels are the labels of containers that services select.
var labels = []string{"app=web", "app=db", "tier=front"}

// spot is the place of an existing or possible endpoint.
type spot struct{ tenant, network, container string }

func (g *generator) spot() spot {
	return spot{g.tenant(), g.home(), g.name("c", g.scale.containers)}
}

func (s spot) networkID() string  { return s.network + "." + s.tenant }
func (s spot) endpointID() string { return s.networkID() + "-" + s.container }

func (g *generator) createEndpoint() Operation {
	s := g.spot()
	req := &mastercfg.CreateEndpointRequest{
		TenantName: s.tenant, NetworkName: s.network, EndpointID: s.container,
		EPCommonName: fmt.Sprintf("pod-%d-%d", g.client, g.made), // identifies the operation in the store
		ConfigEP:     mastercfg.ConfigEP{Container: s.container, Host: g.name("h", hosts)},
	}
	if g.sometimes(3) {
		req.ConfigEP.ServiceName = g.group()
	}
	if g.sometimes(6) {
		req.ConfigEP.IPAddress = fmt.Sprintf("10.%d.0.%d", g.place(s.network), g.IntN(16))
	}
	if g.sometimes(25) {
		req.ConfigEP.IPv6Address = fmt.Sprintf("2001:db8:%d::%x", g.place(s.network), g.IntN(8))
	}
	return Operation{Verb: CreateEndpoint, Type: "endpoint", Key: s.endpointID(), Request: req}
}

func (g *generator) deleteEndpoint() Operation {
	s := g.spot()
	return Operation{Verb: DeleteEndpoint, Type: "endpoint", Key: s.endpointID(),
		Request: &mastercfg.DeleteEndpointRequest{TenantName: s.tenant, NetworkName: s.network, EndpointID: s.container}}
}

func (g *generator) startContainer() Operation {
	s := g.spot()
	req := &mastercfg.UpdateEndpointRequest{
		Tenant: s.tenant, Network: s.network, EndpointID: s.container, ContainerID: s.endpointID(), Event: "start",
		EPCommonName: "started", Labels: map[string]string{"app": oneOf(g, []string{"web", "db"})},
	}
	if g.sometimes(2) {
		req.Labels["tier"] = "front"
	}
	return Operation{Verb: UpdateEndpoint, Type: "endpoint", Key: s.endpointID(), Request: req}
}

func (g *generator) stopContainer() Operation {
	s := g.spot()
	return Operation{Verb: UpdateEndpoint, Type: "endpoint", Key: s.endpointID(),
		Request: &mastercfg.UpdateEndpointRequest{ContainerID: s.endpointID(), Event: "die"}}
}

// pool returns the name of a network, or of the range of one of its groups.
func (g *generator) pool() (networkID, id string) {
	s := g.spot()
	if g.sometimes(5) {
		return s.networkID(), fmt.Sprintf("%s:%s.%s", s.network, g.group(), s.tenant)
	}
	return s.networkID(), s.networkID()
}

func (g *generator) allocAddress() Operation {
	networkID, id := g.pool()
	req := &mastercfg.AllocAddressRequest{NetworkID: id}
	switch g.IntN(6) {
	case 0:
		req.PreferredIPv4Address = fmt.Sprintf("10.%d.0.%d", g.place(networkID), g.IntN(16))
	case 1:
		req.AddressPool = fmt.Sprintf("2001:db8:%d::/64", g.place(networkID))
	}
	return Operation{Verb: AllocAddress, Type: "address", Key: networkID, Request: req}
}

func (g *generator) releaseAddress() Operation {
	networkID, id := g.pool()
	address := fmt.Sprintf("10.%d.0.%d/24", g.place(networkID), g.IntN(16))
	if g.sometimes(4) {
		address = fmt.Sprintf("2001:db8:%d::%x", g.place(networkID), g.IntN(8))
	}
	return Operation{Verb: ReleaseAddress, Type: "address", Key: networkID,
		Request: &mastercfg.ReleaseAddressRequest{NetworkID: id, IPv4Address: address}}
}
