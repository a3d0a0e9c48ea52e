package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// The providers of a service's ports. All ports of a service have the same providers,
// or each has its own.

// backend is a provider's address and port, the source of its answers.
type backend struct {
	protocol uint8
	at       netip.AddrPort
}

// matches matches the protocol and port of a backend.
func (b backend) matches(tcp, udp func(uint16) openflow.FieldMatch) openflow.Match {
	m := openflow.Match{openflow.IPProto(b.protocol)}
	if b.protocol == openflow.ProtoTCP {
		return append(m, tcp(b.at.Port()))
	}
	return append(m, udp(b.at.Port()))
}

// providers returns the providers of a port, in the IP family of its address: those for new
// connections, and those that drain.
func (o Service) providers(p ServicePort) (serving, draining []netip.AddrPort) {
	if p.Target == 0 {
		return p.Serving, p.Draining
	}
	at := func(all []netip.Addr) (some []netip.AddrPort) {
		for _, a := range all {
			if a.Is4() == p.Address.Is4() {
				some = append(some, netip.AddrPortFrom(a, p.Target))
			}
		}
		return some
	}
	return at(o.Providers), at(o.Draining)
}

// Serving returns the providers of a port that get new connections, in the IP family of its address.
func (o Service) Serving(p ServicePort) []netip.AddrPort {
	serving, _ := o.providers(p)
	return serving
}

// behind returns all providers of a port.
func (o Service) behind(p ServicePort) []netip.AddrPort {
	serving, draining := o.providers(p)
	return slices.Concat(serving, draining)
}

// serving returns the addresses at which some port has providers.
func (o Service) serving() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, p := range o.Ports {
		if !all[p.Address] && len(o.behind(p)) > 0 {
			all[p.Address] = true
		}
	}
	return all
}

// backends returns the backends of the ports that serve some of the given clients, each once.
func (o Service) backends(clients Clients) (all []backend) {
	seen := map[backend]bool{}
	for _, p := range o.Ports {
		if p.From&clients == 0 {
			continue
		}
		for _, at := range o.behind(p) {
			if b := (backend{p.Protocol, at}); !seen[b] {
				seen[b] = true
				all = append(all, b)
			}
		}
	}
	return all
}

// served returns the addresses of all providers, each once.
func (o Service) served() (all []netip.Addr) {
	seen := map[netip.Addr]bool{}
	for _, p := range o.Ports {
		for _, at := range o.behind(p) {
			if a := at.Addr(); !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	return all
}

// addresses returns those at which all of the given clients are served, without those that the service shares
// with other services or with a machine.
func (o Service) addresses(from Clients) (all []netip.Addr) {
	seen := map[netip.Addr]bool{}
	for _, p := range o.Ports {
		if p.From&from == from && !p.Shared && !p.Machine && !seen[p.Address] {
			seen[p.Address] = true
			all = append(all, p.Address)
		}
	}
	return all
}

// admit adds the flow for clients of a prefix, or for all if it is invalid. Where a port serves certain sources
// only, it adds flows of the next priority for those, and the others are dropped.
func (p ServicePort) admit(w *Wants, of netip.Prefix, priority uint16, flow func(uint16, ...openflow.FieldMatch) flowBuilder, actions ...openflow.Action) {
	from := func(clients netip.Prefix) openflow.Match {
		if !clients.IsValid() {
			return nil
		}
		return openflow.Match{familyOf(clients.Addr()).src(clients)}
	}
	if len(p.Sources) == 0 {
		w.flow(flow(priority, from(of)...).do(actions...).end())
		return
	}
	w.flow(flow(priority, from(of)...).drop(reasonNotServed))
	for _, source := range p.Sources {
		if source.Addr().Is4() != p.Address.Is4() {
			continue
		}
		switch {
		case !of.IsValid() || of.Overlaps(source) && of.Bits() <= source.Bits():
			w.flow(flow(priority+1, from(source)...).do(actions...).end())
		case of.Overlaps(source):
			w.flow(flow(priority+1, from(of)...).do(actions...).end())
			return // all of them
		}
	}
}
