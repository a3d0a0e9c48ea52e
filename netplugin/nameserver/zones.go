package nameserver

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Zones are the names of all tenants. The agent writes them, object by object as read from the store, in any
// order.
type Zones struct {
	mu        sync.RWMutex
	tenants   map[string]*zone
	networks  map[string]Network  // by id
	endpoints map[string]*host    // by id
	services  map[string]*service // by id
	partial   bool                // some objects of the store are not known yet
	version   atomic.Uint64       // incremented with each change
}

// Network is the part of a network that matters here: its subnets contain addresses of its tenant.
type Network struct {
	ID      string
	Tenant  string
	Subnets [2]netip.Prefix // IPv4 and IPv6; invalid: none
	Shared  bool            // machines outside have addresses of the subnets, too
}

// Endpoint has up to three names, and addresses. A name may be empty.
type Endpoint struct {
	ID        string // in the store
	Tenant    string
	Group     string // its endpoint group
	Container string // its container
	Runtime   string // its name in the container runtime
	IPv4      netip.Addr
	IPv6      netip.Addr // invalid: none
}

// zone has the names and addresses of a tenant, indexed for lookups.
type zone struct {
	networks  map[string]Network // by id
	named     [classes]map[string][]*host
	addressed map[netip.Addr][]*host
	services  map[string]*service
	virtual   map[netip.Addr]*service
	version   uint64 // incremented when an endpoint is added or removed
}

// Classes of names of endpoints, in the order of lookup.
const (
	byGroup = iota
	byContainer
	byRuntime
	classes
)

// host is an endpoint with its names in lower case.
type host struct {
	Endpoint
	names [classes]string
	place [classes]int // its index in the list of hosts with that name
}

func (h *host) addresses() (list []netip.Addr) {
	for _, a := range []netip.Addr{h.IPv4, h.IPv6} {
		if a.IsValid() {
			list = append(list, a)
		}
	}
	return list
}

// change calls do with the lock; do returns whether it has changed anything.
func (z *Zones) change(do func() bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if do() {
		z.version.Add(1)
	}
}

// NewZones returns zones without names.
func NewZones() *Zones {
	return &Zones{tenants: map[string]*zone{}, networks: map[string]Network{}, endpoints: map[string]*host{}, services: map[string]*service{}}
}

// SetPartial sets whether some objects of the store are not known yet: then a missing name is SERVFAIL, not
// NXDOMAIN.
func (z *Zones) SetPartial(partial bool) {
	z.change(func() bool {
		before := z.partial
		z.partial = partial
		return partial != before
	})
}

// Partial reports whether some objects of the store are not known yet.
func (z *Zones) Partial() bool {
	z.mu.RLock()
	defer z.mu.RUnlock()
	return z.partial
}

// SetNetwork adds or replaces a network.
func (z *Zones) SetNetwork(n Network) {
	z.change(func() bool {
		if old, known := z.networks[n.ID]; known && old == n {
			return false
		}
		z.removeNetwork(n.ID)
		z.networks[n.ID] = n
		z.tenant(n.Tenant).networks[n.ID] = n
		return true
	})
}

// RemoveNetwork removes a network, if it exists.
func (z *Zones) RemoveNetwork(id string) {
	z.change(func() bool { return z.removeNetwork(id) })
}

func (z *Zones) removeNetwork(id string) (known bool) {
	old, known := z.networks[id]
	if known {
		delete(z.networks, id)
		delete(z.tenants[old.Tenant].networks, id)
		z.forget(old.Tenant)
	}
	return known
}

// SetEndpoint adds or replaces an endpoint.
func (z *Zones) SetEndpoint(e Endpoint) {
	z.change(func() bool {
		if old, known := z.endpoints[e.ID]; known && old.Endpoint == e {
			return false
		}
		z.removeEndpoint(e.ID)
		z.addEndpoint(e)
		return true
	})
}

func (z *Zones) addEndpoint(e Endpoint) {
	h := &host{Endpoint: e, names: [classes]string{byGroup: fold(e.Group), byContainer: fold(e.Container), byRuntime: fold(e.Runtime)}}
	z.endpoints[e.ID] = h
	in := z.tenant(e.Tenant)
	in.version++
	for class, name := range h.names {
		if name != "" {
			h.place[class] = len(in.named[class][name])
			in.named[class][name] = append(in.named[class][name], h)
		}
	}
	for _, a := range h.addresses() {
		in.addressed[a] = append(in.addressed[a], h)
	}
}

// RemoveEndpoint removes an endpoint, if it exists.
func (z *Zones) RemoveEndpoint(id string) {
	z.change(func() bool { return z.removeEndpoint(id) })
}

func (z *Zones) removeEndpoint(id string) (known bool) {
	h, known := z.endpoints[id]
	if !known {
		return false
	}
	delete(z.endpoints, id)
	in := z.tenants[h.Tenant]
	in.version++
	for class, name := range h.names {
		if name != "" {
			moved := dropAt(in.named[class], name, h.place[class])
			moved.place[class] = h.place[class]
		}
	}
	for _, a := range h.addresses() {
		dropAt(in.addressed, a, slices.Index(in.addressed[a], h))
	}
	z.forget(h.Tenant)
	return true
}

// tenant returns the zone of a tenant, and creates it if necessary.
func (z *Zones) tenant(name string) *zone {
	in := z.tenants[name]
	if in == nil {
		in = &zone{networks: map[string]Network{}, addressed: map[netip.Addr][]*host{},
			services: map[string]*service{}, virtual: map[netip.Addr]*service{}}
		for class := range in.named {
			in.named[class] = map[string][]*host{}
		}
		z.tenants[name] = in
	}
	return in
}

// forget removes the zone of a tenant if it is empty.
func (z *Zones) forget(tenant string) {
	in := z.tenants[tenant]
	for _, named := range in.named {
		if len(named) > 0 {
			return
		}
	}
	if len(in.networks)+len(in.addressed)+len(in.services)+len(in.virtual) == 0 {
		delete(z.tenants, tenant)
	}
}

// dropAt removes the host at an index from the list of a property. The last host of the list moves to that index, and
// is returned.
func dropAt[K comparable](index map[K][]*host, property K, at int) (moved *host) {
	list := index[property]
	last := len(list) - 1
	moved = list[last]
	list[at], list[last] = moved, nil
	if index[property] = list[:last]; last == 0 {
		delete(index, property)
	}
	return moved
}

// TenantOf returns the tenant of an endpoint.
func (z *Zones) TenantOf(endpointID string) (tenant string, known bool) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	h, known := z.endpoints[endpointID]
	if !known {
		return "", false
	}
	return h.Tenant, true
}

// maxAddresses is the maximum number of endpoints of a group in one answer. Their selection varies from answer to
// answer.
const maxAddresses = 64

// found is the result of a lookup.
type found struct {
	known     bool // the name exists
	unsure    bool // it may be among objects that are not known yet, or cannot be encoded
	cut       bool // this is only a part
	addresses []netip.Addr
	ports     []Port

	ofProviders bool // these are the providers of a service, not the service
	providers   []provider
}

// lookup finds a name of a tenant. The name is one label or more, without the tenant's
// domain; ours as returned by relative. Names of providers are found only if ours, so that a
// service and a container together do not hide a domain name of others.
func (z *Zones) lookup(tenant, name string, ours bool) found {
	z.mu.RLock()
	defer z.mu.RUnlock()
	in := z.tenants[tenant]
	if in == nil {
		return found{unsure: z.partial}
	}
	if s := in.services[name]; s != nil {
		return found{known: true, addresses: s.addresses(), ports: s.Ports}
	}
	for _, named := range in.named {
		hosts := named[name]
		if len(hosts) == 0 {
			continue
		}
		f := found{known: true, cut: len(hosts) > maxAddresses}
		first := 0
		if f.cut {
			first = rand.IntN(len(hosts))
		}
		for i := range min(len(hosts), maxAddresses) {
			f.addresses = append(f.addresses, hosts[(first+i)%len(hosts)].addresses()...)
		}
		return f
	}
	if ours {
		if f := in.providersOf(name); f.known {
			return f
		}
	}
	return found{unsure: z.partial}
}

// owner finds the names of an address of a tenant. inside reports that the query must not be forwarded: the tenant
// has the address, or it is in a subnet without machines outside. unsure reports that its endpoint may be among
// objects that are not known yet.
func (z *Zones) owner(tenant string, a netip.Addr) (names []string, inside, unsure bool) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	in := z.tenants[tenant]
	if in == nil {
		return nil, false, false
	}
	if s := in.virtual[a]; s != nil {
		return []string{s.Name}, true, false
	}
	hosts, within := in.addressed[a], false
	inside = len(hosts) > 0
	for _, n := range in.networks {
		if n.Subnets[0].Contains(a) || n.Subnets[1].Contains(a) {
			within = true
			inside = inside || !n.Shared
		}
	}
	for _, h := range hosts {
		if name, ok := h.label(); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, inside, z.partial && within && len(names) == 0
}
