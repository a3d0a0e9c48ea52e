package nameserver

import (
	"math/rand/v2"
	"net/netip"
	"strings"
)

// everyProvider before a service's name stands for all of its providers.
const everyProvider = "providers"

// provider is who serves a service.
type provider struct {
	name    string // below the tenant's domain
	address netip.Addr
}

// providersOf finds what NAME.SERVICE stands for, a provider, and providers.SERVICE,
// which is all of them, up to maxAddresses and others each time. Several providers may
// have one name.
func (in *zone) providersOf(name string) (f found) {
	wanted, serviceName, _ := strings.Cut(name, ".")
	s := in.services[serviceName]
	if s == nil {
		return found{}
	}
	providers := s.Providers
	if wanted != everyProvider {
		providers = s.labels(in).providers[wanted]
	}
	f = found{known: wanted == everyProvider || len(providers) > 0, cut: len(providers) > maxAddresses, ports: s.Ports, ofProviders: true}
	first := rand.IntN(max(len(providers), 1))
	for i := range min(len(providers), maxAddresses) {
		a, label := providers[(first+i)%len(providers)], wanted
		if wanted == everyProvider {
			label = in.labelOf(a)
		}
		f.addresses, f.providers = append(f.addresses, a), append(f.providers, provider{label + "." + serviceName, a})
	}
	return f
}

// labels are what the providers of a service are called.
type labels struct {
	version   uint64                  // of the zone
	providers map[string][]netip.Addr // by label
}

// labels finds them. They are looked up once for as many questions as there are until an
// endpoint comes or goes: to look at each of very many providers for each question would keep
// the name server busy, and the names that nobody has are without end.
func (s *service) labels(in *zone) *labels {
	known := s.called.Load()
	if known == nil || known.version != in.version {
		known = &labels{in.version, map[string][]netip.Addr{}}
		for _, a := range s.Providers {
			label := in.labelOf(a)
			known.providers[label] = append(known.providers[label], a)
		}
		s.called.Store(known)
	}
	return known
}

// labelOf is what the provider at an address is called: like its container or, where
// that is no label, like its address with dashes.
func (in *zone) labelOf(a netip.Addr) string {
	for _, h := range in.addressed[a] {
		if name, ok := h.label(); ok {
			return name
		}
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}

// label is the name of a container that can be one label.
func (h *host) label() (name string, ok bool) {
	for _, name := range []string{h.names[byContainer], h.names[byRuntime]} {
		if isLabel(name) {
			return name, true
		}
	}
	return "", false
}

// target is where a service is found.
type target struct {
	name      string // below the tenant's domain
	addresses []netip.Addr
}

// targets are where what has a name is found: at the service, or at each of its providers.
func (f found) targets(name string) (list []target) {
	if !f.ofProviders {
		return []target{{name, f.addresses}}
	}
	for _, by := range f.providers {
		list = append(list, target{by.name, []netip.Addr{by.address}})
	}
	return list
}

// portOf is what a port of the service is at its targets.
func (f found) portOf(p Port) uint16 {
	if f.ofProviders {
		return p.Target
	}
	return p.Number
}
