package e2e

import (
	"net/netip"
	"slices"
)

// worldService selects the providing pods of its tenant.
type worldService struct {
	tenant, network, name string
	addresses             []netip.Addr // one of IPv4, one of IPv6, or both
}

// newService has an address of each IP family that its network has, but may do without IPv6 where there is
// IPv4. Addresses of pods begin at the other end of the subnet.
func (w *world) newService(n worldNetwork) worldService {
	s := worldService{tenant: n.tenant, network: n.name, name: "s" + n.name}
	if n.subnet4.IsValid() {
		s.addresses = append(s.addresses, n.host4(200))
	}
	if n.subnet6.IsValid() && (!n.subnet4.IsValid() || w.chance(70)) {
		s.addresses = append(s.addresses, n.host6(200))
	}
	return s
}

func (s worldService) document() document {
	spec := map[string]any{"networkName": s.network, "selectors": []string{"app=web"}, "ports": []string{tcpPort + ":80:TCP", echoPort + ":7:UDP"}}
	for _, a := range s.addresses {
		field := "ipv6Address"
		if a.Is4() {
			field = "ipAddress"
		}
		spec[field] = a.String()
	}
	return document{"serviceLB", map[string]string{"tenant": s.tenant, "name": s.name}, spec}
}

// serviceAt returns the service that a pod reaches at an address, as in docs/networking.md (Services).
func (w *world) serviceAt(from *worldPod, to netip.Addr) (found worldService, ok bool) {
	at := slices.IndexFunc(w.services, func(s worldService) bool {
		return slices.Contains(s.addresses, to) && (w.routedVLANs() || from.tenant == s.tenant && (w.mode == "routing" || from.network == s.network))
	})
	if at < 0 {
		return found, false
	}
	return w.services[at], true
}

// providers returns those of a service, at an address of the same IP family as its own.
func (w *world) providers(s worldService, of netip.Addr) (all []*worldPod) {
	for _, p := range w.pods {
		if p.provides && p.tenant == s.tenant && (w.mode == "routing" || p.network == s.network) && p.like(of).IsValid() {
			all = append(all, p)
		}
	}
	return all
}

// refusal is the probe's answer for a refused connection.
const refusal = "refused"

// served returns which pods may answer a question about a service. Agents refuse clients of services without
// providers; without agents there is no answer.
func (w *world) served(s worldService, from *worldPod, q question) (all []string) {
	switch {
	case q.protocol == "sctp": // no service has a port of it
		return []string{""}
	case q.protocol == "ping" && q.size == cut: // the switch answers, and puts no fragments together
		return []string{""}
	case q.protocol == "ping":
		return []string{"pong"}
	}
	if !q.shut {
		all = w.provided(s, from, q)
	}
	switch {
	case len(all) > 0:
		return all
	case w.unattended:
		return []string{""}
	}
	return []string{refusal}
}

// provided returns the possible answers of each provider.
func (w *world) provided(s worldService, from *worldPod, q question) (all []string) {
	for _, p := range w.providers(s, q.to) {
		all = append(all, w.answer(from, p, p.like(q.to), q.protocol))
		if p == from && q.size == cut { // packets of a provider to itself must not be larger than the MTU
			all = append(all, "")
		}
	}
	return all
}

// provide makes a pod a provider of its services, or ends that: its container has other labels, or stops.
func (w inhabited) provide(p *worldPod, is bool) {
	w.Helper()
	if p.provides == is {
		return
	}
	p.provides = is
	switch {
	case is:
		w.container("start", w.alive[p], webLabels)
	case w.chance(50):
		w.container("start", w.alive[p], map[string]string{"app": "old"})
	default: // an end is only reported after a start
		w.container("start", w.alive[p], webLabels)
		w.container("die", w.alive[p], nil)
	}
}

var webLabels = map[string]string{"app": "web"}
