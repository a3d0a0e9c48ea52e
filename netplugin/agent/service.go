package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/kubeservice"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// services has the services and, by a record each, their providers.
// A provider may arrive before its service, or outlive it.
type services struct {
	byID      map[string]service             // by id, S:T
	providers map[string]map[netip.Addr]bool // service id -> provider -> is it draining
	byNetwork index                          // network -> services; the network's record may be missing
	groups    map[uint32]struct{}            // numbers of the services' groups in the switch
	here      index                          // address -> endpoints of this node
	udpAt     index                          // tenant and address -> services of the pipeline with UDP ports there
	nodePorts index                          // protocol and port -> tenant and service of the pipeline with that node port
}

// service is a decoded service.
type service struct {
	netID  string
	tenant string
	name   string                 // without the tenant
	vips   [2]netip.Addr          // IPv4, IPv6; invalid: none
	own    []pipeline.ServicePort // as the model has them
	part   pipeline.Service       // own fields; those of the network, the node and the providers are set later
}

func newServices() services {
	return services{
		byID: make(map[string]service), providers: make(map[string]map[netip.Addr]bool), byNetwork: make(index),
		groups: make(map[uint32]struct{}), here: make(index), udpAt: make(index), nodePorts: make(index),
	}
}

func decodeService(id string, value []byte) (service, error) {
	var r mastercfg.CfgServiceLBState
	if err := json.Unmarshal(value, &r); err != nil {
		return service{}, err
	}
	s := service{netID: mastercfg.NetworkID(r.Tenant, r.Network), tenant: r.Tenant, name: r.ServiceName, part: pipeline.Service{ID: id}}
	var err error
	if s.own, err = parsePorts(r.Ports); err != nil {
		return service{}, err
	}
	for i, text := range []string{r.IPAddress, r.IPv6Address} {
		if text == "" {
			continue
		}
		if s.vips[i], err = netip.ParseAddr(text); err != nil || s.vips[i].Is4() != (i == 0) {
			return service{}, fmt.Errorf("virtual address %q is not of its version of IP", text)
		}
	}
	if s.part.Affinity = uint16(r.Affinity); int(s.part.Affinity) != r.Affinity {
		return service{}, fmt.Errorf("session affinity of %d seconds is not in 0..65535", r.Affinity)
	}
	s.part.Ports, err = s.served(r)
	return s, err
}

func parsePorts(texts []string) (all []pipeline.ServicePort, err error) {
	for _, text := range texts {
		port, err := parsePort(text)
		if err != nil {
			return nil, err
		}
		all = append(all, port)
	}
	return all, nil
}

// parsePort parses servicePort:providerPort:protocol.
func parsePort(text string) (pipeline.ServicePort, error) {
	parts := strings.Split(text, ":")
	protocol := inet.TransportNumber(strings.ToLower(parts[len(parts)-1]))
	if len(parts) != 3 || protocol != inet.TCP && protocol != inet.UDP {
		return pipeline.ServicePort{}, fmt.Errorf("port %q is not servicePort:providerPort:protocol, with protocol tcp or udp", text)
	}
	var numbers [2]uint16
	for i := range numbers {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil || n == 0 {
			return pipeline.ServicePort{}, fmt.Errorf("port %q: %q is not in 1..65535", text, parts[i])
		}
		numbers[i] = uint16(n)
	}
	return pipeline.ServicePort{Protocol: protocol, Port: numbers[0], Target: numbers[1]}, nil
}

func (c *cache) putService(id string, value []byte, _ int64) error {
	s, err := decodeService(id, value)
	if err != nil {
		return err
	}
	c.removeService(id)
	s.part = s.part.Numbered(func(group uint32) bool { _, taken := c.services.groups[group]; return taken })
	for _, p := range s.part.Ports {
		c.services.groups[p.Group] = struct{}{}
		c.placePort(s.tenant, p, id, index.add)
	}
	c.services.byID[id] = s
	c.services.byNetwork.add(s.netID, id)
	if s.isEntered() {
		c.countEntered(s.tenant, 1)
		c.hostChanges()
	}
	return nil
}

func (c *cache) removeService(id string) {
	if old, existed := c.services.byID[id]; existed {
		c.services.byNetwork.remove(old.netID, id)
		for _, p := range old.part.Ports {
			delete(c.services.groups, p.Group)
			c.placePort(old.tenant, p, id, index.remove)
		}
		delete(c.services.byID, id)
		if old.isEntered() {
			c.countEntered(old.tenant, -1)
			c.hostChanges()
		}
	}
	c.mark(pipeline.KindService, id)
}

// placePort adds a port of a service to the indexes of ports, or removes it.
func (c *cache) placePort(tenant string, p pipeline.ServicePort, service string, change func(x index, place, service string)) {
	c.placeUDP(tenant, p, service, change)
	c.placeNodePort(tenant, p, service, change)
	c.placeUDPNodePort(p)
}

// putProvider stores a provider of a service, which is part of the key.
func (c *cache) putProvider(id string, value []byte, _ int64) error {
	var r mastercfg.SvcProvider
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	service, text, _ := strings.Cut(id, "/")
	address, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	if c.services.providers[service] == nil {
		c.services.providers[service] = make(map[netip.Addr]bool)
	}
	c.services.providers[service][address] = r.Draining
	c.mark(pipeline.KindService, service)
	return nil
}

func (c *cache) removeProvider(id string) {
	service, text, _ := strings.Cut(id, "/")
	address, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	delete(c.services.providers[service], address)
	if len(c.services.providers[service]) == 0 {
		delete(c.services.providers, service)
	}
	c.mark(pipeline.KindService, service)
}

func (c *cache) wantedService(id string) (pipeline.Object, error) {
	if kube, ok := strings.CutPrefix(id, kubeID); ok {
		return c.wantedKubeService(kube)
	}
	s, known := c.services.byID[id]
	if !known {
		return nil, fault.New(fault.NotFound, "service %s is not known", id)
	}
	n, err := c.servedNetwork(s.netID)
	if err != nil {
		return nil, err
	}
	o := s.part
	o.Mode, o.Encap, o.VRF, o.Tag, o.Ports = n.Mode, n.Encap, n.VRF, n.Tag, c.portsFromHost(o.Ports, n.Encap)
	for i, p := range o.Ports {
		o.Ports[i].Mixed = c.sharesUDPAddress(s.tenant, p)
	}
	o.Draining, o.Providers = c.providersOf(id, n)
	if routedVLAN(n) {
		o.Ports = append(o.Ports, c.announcedPorts(s.part.Ports, o.Providers, o.Draining)...)
	}
	o.Providers, o.Draining = c.fitting(o)
	return o, nil
}

// fitting returns as many providers of a service, ascending, as it has room for: with more the service would
// not be programmed. As for Kubernetes services, each node chooses differently and prefers its own.
func (c *cache) fitting(o pipeline.Service) (serving, draining []netip.Addr) {
	for _, ipv4 := range []bool{true, false} {
		chosen := kubeservice.Chosen{Serving: placed(o.Providers, ipv4), Draining: placed(o.Draining, ipv4)}.AtMost(o.Room(ipv4), c.host, c.attachedHere)
		for _, a := range chosen.Serving {
			serving = append(serving, a.Addr())
		}
		for _, a := range chosen.Draining {
			draining = append(draining, a.Addr())
		}
	}
	return serving, draining
}

// placed returns the addresses of one IP family, with port 0.
func placed(all []netip.Addr, ipv4 bool) (some []netip.AddrPort) {
	for _, a := range all {
		if a.Is4() == ipv4 {
			some = append(some, netip.AddrPortFrom(a, 0))
		}
	}
	return some
}

// providersOf returns the draining and the other providers of a service in a network, ascending. In a bridged network
// only its own addresses are providers; in a routed one those in networks of the other encapsulation are not.
func (c *cache) providersOf(id string, in pipeline.Network) (draining, serving []netip.Addr) {
	apart := c.otherEncapNetworks(in)
	for _, a := range slices.SortedFunc(maps.Keys(c.services.providers[id]), netip.Addr.Compare) {
		switch {
		case c.mode.Bridged() && !holds(in, a):
		case slices.ContainsFunc(apart, func(n pipeline.Network) bool { return holds(n, a) }):
		case c.services.providers[id][a]:
			draining = append(draining, a)
		default:
			serving = append(serving, a)
		}
	}
	return draining, serving
}

// otherEncapNetworks returns the networks of the same tenant
// with the other encapsulation, which are on another bridge.
func (c *cache) otherEncapNetworks(in pipeline.Network) (apart []pipeline.Network) {
	other := pipeline.VXLAN
	if in.Encap == pipeline.VXLAN {
		other = pipeline.VLAN
	}
	for id := range c.networksBy[tenantEncap(in.Tenant, other)] {
		apart = append(apart, c.networks[id].part)
	}
	return apart
}

func tenantEncap(tenant string, encap pipeline.Encap) string { return tenant + "/" + encap.String() }

// holds reports whether an address is in a subnet of a network.
func holds(n pipeline.Network, a netip.Addr) bool {
	return n.Subnet.Contains(a) || n.Subnet6.Contains(a)
}

func (c *cache) markServices(network string) {
	for id := range c.services.byNetwork[network] {
		c.mark(pipeline.KindService, id)
	}
}
