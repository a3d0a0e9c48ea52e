package nameserver

import (
	"math/rand/v2"
	"net/netip"
	"strings"
)

// everyProvider is the label before a service's name that means all of its providers.
const everyProvider = "providers"

// provider is a provider of a service.
type provider struct {
	name    string // below the tenant's domain
	address netip.Addr
}

// providersOf returns the providers with the name NAME.SERVICE, or all for providers.SERVICE: at most
// maxAddresses, starting at a random one if there are more. Several providers may have the same name.
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

// labels are the names of the providers of a service.
type labels struct {
	version   uint64                  // of the zone
	providers map[string][]netip.Addr // by label
}

// labels returns the names of a service's providers. They are computed once after each change of endpoints, not
// for each query: clients may query any number of names that do not exist, of a service with very many providers.
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

// labelOf returns the name of the provider at an address: that of its container or, where that is not a valid
// label, the address with dashes.
func (in *zone) labelOf(a netip.Addr) string {
	for _, h := range in.addressed[a] {
		if name, ok := h.label(); ok {
			return name
		}
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}

// label returns the name of a container that is a valid label.
func (h *host) label() (name string, ok bool) {
	for _, name := range []string{h.names[byContainer], h.names[byRuntime]} {
		if isLabel(name) {
			return name, true
		}
	}
	return "", false
}

// target is the target of an SRV record.
type target struct {
	name      string // below the tenant's domain
	addresses []netip.Addr
}

// targets returns the SRV targets of what was found by a name: the service, or each of the providers.
func (f found) targets(name string) (list []target) {
	if !f.ofProviders {
		return []target{{name, f.addresses}}
	}
	for _, by := range f.providers {
		list = append(list, target{by.name, []netip.Addr{by.address}})
	}
	return list
}

// portOf returns the number of a service's port at its targets.
func (f found) portOf(p Port) uint16 {
	if f.ofProviders {
		return p.Target
	}
	return p.Number
}
