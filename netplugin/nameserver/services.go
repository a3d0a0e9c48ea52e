package nameserver

import (
	"net/netip"
	"slices"
	"sync/atomic"
)

// Service is a name with addresses and ports, and the addresses of its providers.
type Service struct {
	ID        string
	Tenant    string
	Name      string
	Address   netip.Addr // IPv4; invalid: none
	IPv6      netip.Addr // likewise
	Ports     []Port
	Providers []netip.Addr // without those that are draining
}

// service is a service in a zone. The names of its providers are computed when a client asks for one.
type service struct {
	Service
	called atomic.Pointer[labels]
}

// addresses returns the valid addresses of the service.
func (s *Service) addresses() (all []netip.Addr) {
	for _, a := range []netip.Addr{s.Address, s.IPv6} {
		if a.IsValid() {
			all = append(all, a)
		}
	}
	return all
}

func (s *Service) equal(o *Service) bool {
	return s.ID == o.ID && s.Tenant == o.Tenant && s.Name == o.Name && s.Address == o.Address && s.IPv6 == o.IPv6 &&
		slices.Equal(s.Ports, o.Ports) && slices.Equal(s.Providers, o.Providers)
}

// Port of a service.
type Port struct {
	Protocol string // tcp, udp
	Number   uint16
	Target   uint16 // of the providers
}

// SetService adds or replaces a service.
func (z *Zones) SetService(wanted Service) {
	s := &service{Service: wanted}
	s.Name = fold(s.Name)
	z.change(func() bool {
		if old, known := z.services[s.ID]; known && old.equal(&s.Service) && z.finds(old) {
			return false
		}
		z.removeService(s.ID)
		z.services[s.ID] = s
		in := z.tenant(s.Tenant)
		in.services[s.Name] = s
		for _, a := range s.addresses() {
			in.virtual[a] = s
		}
		return true
	})
}

// finds reports whether lookups of a service's name and addresses find this service, not another one.
func (z *Zones) finds(s *service) bool {
	in := z.tenants[s.Tenant]
	return in != nil && in.services[s.Name] == s && !slices.ContainsFunc(s.addresses(), func(a netip.Addr) bool { return in.virtual[a] != s })
}

// RemoveService removes a service, if it exists.
func (z *Zones) RemoveService(id string) {
	z.change(func() bool { return z.removeService(id) })
}

func (z *Zones) removeService(id string) (known bool) {
	s, known := z.services[id]
	if !known {
		return false
	}
	delete(z.services, id)
	in := z.tenant(s.Tenant) // the zone may have been removed with another service of that name
	if in.services[s.Name] == s {
		delete(in.services, s.Name)
	}
	for _, a := range s.addresses() {
		if in.virtual[a] == s {
			delete(in.virtual, a)
		}
	}
	z.forget(s.Tenant)
	return true
}
