package nameserver

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Zones are the names of all tenants.
type Zones struct {
	mu        sync.RWMutex
	networks  map[string]segment // by network id
	endpoints map[string]host    // by endpoint id
	services  map[string]service // by service id
	members   map[string]members // network id -> what is in it
	tenants   map[string]map[string]struct{}
	virtual   map[tenantAddress]string // VIP -> service id
	serviceOf map[tenantName]string    // name -> service id
}

// segment is what a network says about names.
type segment struct {
	tenant  string
	subnets [2]netip.Prefix // invalid: none
}

// host is an endpoint: its names by class, and its addresses.
type host struct {
	network   string
	names     [classes]string
	addresses [2]netip.Addr // IPv4 and IPv6; invalid: none
}

// service is a name with an address and ports.
type service struct {
	tenant  string
	name    string
	address netip.Addr
	ports   []servicePort
}

type servicePort struct {
	protocol string // tcp, udp
	number   uint16
}

// Classes of names of endpoints, in the order in which they are looked at.
const (
	byGroup = iota
	byContainer
	byID
	classes
)

// members are the endpoints of a network by what they are asked for.
type members struct {
	named     [classes]map[string]map[string]struct{} // name -> endpoint ids
	addressed map[netip.Addr]map[string]struct{}
}

type (
	tenantAddress struct {
		tenant  string
		address netip.Addr
	}
	tenantName struct{ tenant, name string }
)

// NewZones makes zones without names.
func NewZones() *Zones {
	return &Zones{
		networks: map[string]segment{}, endpoints: map[string]host{}, services: map[string]service{},
		members: map[string]members{}, tenants: map[string]map[string]struct{}{},
		virtual: map[tenantAddress]string{}, serviceOf: map[tenantName]string{},
	}
}

// Apply takes in a key of the store; a nil value is a deletion. Keys of other
// kinds are ignored. A value that cannot be read counts as absent, and the error
// says why.
func (z *Zones) Apply(key string, value []byte) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, kind := range []struct {
		prefix string
		put    func(id string, value []byte) error
		remove func(id string)
	}{
		{mastercfg.NetworkPrefix, z.putNetwork, z.removeNetwork},
		{mastercfg.EndpointPrefix, z.putEndpoint, z.removeEndpoint},
		{mastercfg.ServiceLBPrefix, z.putService, z.removeService},
	} {
		id, ours := strings.CutPrefix(key, kind.prefix)
		if !ours {
			continue
		}
		kind.remove(id)
		if value == nil {
			return nil
		}
		return kind.put(id, value)
	}
	return nil
}

func (z *Zones) putNetwork(id string, value []byte) error {
	var r struct {
		Tenant       string `json:"tenant"`
		SubnetIP     string `json:"subnetIP"`
		SubnetLen    int    `json:"subnetLen"`
		IPv6Subnet   string `json:"ipv6SubnetIP"`
		IPv6SubnetLn int    `json:"ipv6SubnetLen"`
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	z.networks[id] = segment{tenant: r.Tenant, subnets: [2]netip.Prefix{subnet(r.SubnetIP, r.SubnetLen), subnet(r.IPv6Subnet, r.IPv6SubnetLn)}}
	put(z.tenants, r.Tenant, id)
	return nil
}

func (z *Zones) removeNetwork(id string) {
	drop(z.tenants, z.networks[id].tenant, id)
	delete(z.networks, id)
}

func (z *Zones) putEndpoint(id string, value []byte) error {
	var r mastercfg.CfgEndpointState
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	group, _, _ := strings.Cut(r.EndpointGroupKey, ":")
	h := host{network: r.NetID, addresses: [2]netip.Addr{address(r.IPAddress), address(r.IPv6Address)}}
	h.names[byGroup], h.names[byContainer], h.names[byID] = fold(group), fold(strings.TrimPrefix(r.EPCommonName, "/")), fold(r.EndpointID)
	z.endpoints[id] = h
	in, known := z.members[h.network]
	if !known {
		in.addressed = map[netip.Addr]map[string]struct{}{}
		for class := range in.named {
			in.named[class] = map[string]map[string]struct{}{}
		}
		z.members[h.network] = in
	}
	for class, name := range h.names {
		if name != "" {
			put(in.named[class], name, id)
		}
	}
	for _, a := range h.addresses {
		if a.IsValid() {
			put(in.addressed, a, id)
		}
	}
	return nil
}

func (z *Zones) removeEndpoint(id string) {
	h, known := z.endpoints[id]
	if !known {
		return
	}
	delete(z.endpoints, id)
	in := z.members[h.network]
	for class, name := range h.names {
		drop(in.named[class], name, id)
	}
	for _, a := range h.addresses {
		drop(in.addressed, a, id)
	}
	if len(in.named[byID])+len(in.addressed) == 0 {
		delete(z.members, h.network)
	}
}

func (z *Zones) putService(id string, value []byte) error {
	var r mastercfg.CfgServiceLBState
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	s := service{tenant: r.Tenant, name: fold(r.ServiceName), address: address(r.IPAddress)}
	for _, text := range r.Ports {
		if p, ok := parsePort(text); ok {
			s.ports = append(s.ports, p)
		}
	}
	z.services[id] = s
	z.serviceOf[tenantName{s.tenant, s.name}] = id
	if s.address.IsValid() {
		z.virtual[tenantAddress{s.tenant, s.address}] = id
	}
	return nil
}

func (z *Zones) removeService(id string) {
	s, known := z.services[id]
	if !known {
		return
	}
	delete(z.services, id)
	if name := (tenantName{s.tenant, s.name}); z.serviceOf[name] == id {
		delete(z.serviceOf, name)
	}
	if a := (tenantAddress{s.tenant, s.address}); z.virtual[a] == id {
		delete(z.virtual, a)
	}
}

// put and drop keep an index of ids by a property.
func put[K comparable](index map[K]map[string]struct{}, property K, id string) {
	if index[property] == nil {
		index[property] = map[string]struct{}{}
	}
	index[property][id] = struct{}{}
}

func drop[K comparable](index map[K]map[string]struct{}, property K, id string) {
	delete(index[property], id)
	if len(index[property]) == 0 {
		delete(index, property)
	}
}

// maxAddresses bounds how many endpoints of a group an answer names. Which ones
// they are differs from answer to answer.
const maxAddresses = 64

// found is what a name stands for.
type found struct {
	known     bool // there is such a name
	addresses []netip.Addr
	ports     []servicePort
}

// lookup finds what a name of a tenant stands for. A name is one label or more,
// without the tenant's domain.
func (z *Zones) lookup(tenant, name string) found {
	z.mu.RLock()
	defer z.mu.RUnlock()
	if id, ok := z.serviceOf[tenantName{tenant, name}]; ok {
		s := z.services[id]
		f := found{known: true, ports: s.ports}
		if s.address.IsValid() {
			f.addresses = []netip.Addr{s.address}
		}
		return f
	}
	for class := range classes {
		f := found{}
		for network := range z.tenants[tenant] {
			for id := range z.members[network].named[class][name] {
				f.known = true
				for _, a := range z.endpoints[id].addresses {
					if a.IsValid() {
						f.addresses = append(f.addresses, a)
					}
				}
				if len(f.addresses) >= 2*maxAddresses {
					return f
				}
			}
		}
		if f.known {
			return f
		}
	}
	return found{}
}

// owner finds the names of an address of a tenant. Inside tells whether the
// address is in a subnet of the tenant, so that nobody else could know it.
func (z *Zones) owner(tenant string, a netip.Addr) (names []string, inside bool) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	if id, ok := z.virtual[tenantAddress{tenant, a}]; ok {
		return []string{z.services[id].name}, true
	}
	for network := range z.tenants[tenant] {
		for _, p := range z.networks[network].subnets {
			inside = inside || p.Contains(a)
		}
		for id := range z.members[network].addressed[a] {
			h := z.endpoints[id]
			for _, name := range []string{h.names[byContainer], h.names[byID]} {
				if isLabel(name) {
					names = append(names, name)
					break
				}
			}
		}
	}
	slices.Sort(names)
	return names, inside || len(names) > 0
}

// Records lists all names of all tenants for inspection: tenant, kind of name,
// name, and what it stands for.
func (z *Zones) Records() map[string]map[string]map[string][]string {
	z.mu.RLock()
	defer z.mu.RUnlock()
	all := map[string]map[string]map[string][]string{}
	add := func(tenant, kind, name string, addresses ...netip.Addr) {
		if all[tenant] == nil {
			all[tenant] = map[string]map[string][]string{"services": {}, "endpointGroups": {}, "commonNames": {}, "endpoints": {}}
		}
		for _, a := range addresses {
			if a.IsValid() {
				all[tenant][kind][name] = append(all[tenant][kind][name], a.String())
			}
		}
	}
	for _, s := range z.services {
		add(s.tenant, "services", s.name, s.address)
	}
	kinds := [classes]string{"endpointGroups", "commonNames", "endpoints"}
	for _, h := range z.endpoints {
		for class, name := range h.names {
			if tenant := z.networks[h.network].tenant; name != "" && tenant != "" {
				add(tenant, kinds[class], name, h.addresses[:]...)
			}
		}
	}
	for _, of := range all {
		for _, names := range of {
			for _, addresses := range names {
				slices.Sort(addresses)
			}
		}
	}
	return all
}
