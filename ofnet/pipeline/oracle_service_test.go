package pipeline

import (
	"net/netip"
	"slices"
)

// firstPort is the first port of clients of services, each of which is used once.
const firstPort = 20000

// talk is a connection to a service, or datagrams between two ports.
type talk struct {
	client   int
	service  int
	port     ServicePort
	sport    uint16
	provider int  // -1: not known yet
	answered bool // the client has got an answer
}

func (w *world) isService(vrf uint16, a netip.Addr) bool { return w.serviceAt(vrf, a) >= 0 }

// serviceAt returns the number of the service at an address; -1 if there is none.
func (w *world) serviceAt(vrf uint16, a netip.Addr) int {
	return slices.IndexFunc(w.services, func(s Service) bool { return s.VRF == vrf && vipOf(s) == a })
}

// vipOf returns the address of a service; in these worlds it has only one.
func vipOf(s Service) netip.Addr { return s.Ports[0].Address }

// inReach reports whether an endpoint is a client of a service, and may be its provider: in a bridged network its
// members are, elsewhere endpoints with a gateway.
func (w *world) inReach(s Service, e Endpoint) bool {
	if s.Mode.Bridged() {
		return s.Tag == e.Tag && like(e, vipOf(s)).IsValid()
	}
	return s.VRF == e.VRF && like(e, vipOf(s)).IsValid() && w.in(e).routes(vipOf(s))
}

// like returns the address of an endpoint of the IP family of another address.
func like(e Endpoint, a netip.Addr) netip.Addr {
	if a.Is4() {
		return e.IPv4
	}
	return e.IPv6
}

// asItself returns the source address that a provider sees in its own requests to the service.
func asItself(s Service) netip.Addr {
	if s.Mode.Bridged() {
		return vipOf(s)
	}
	return familyOf(vipOf(s)).hairpinAddress()
}

// served sets the fate of a packet for a service, and reports whether it is one: a ping is answered, a connection
// keeps its provider, and a new one gets any. Packets for a service without providers go to the agent, which does
// not run here.
func (w *world) served(p probeFrame, frame []byte, f *fate) bool {
	if w.hairpinned(p, frame, f) {
		return true
	}
	number := w.serviceAt(w.endpoints[p.from].VRF, p.to)
	if number < 0 {
		return p.to == familyOf(p.to).hairpinAddress()
	}
	s := w.services[number]
	if !w.inReach(s, w.endpoints[p.from]) {
		return true
	}
	if p.isPing() {
		f.must[p.from] = echoed(frame)
		return true
	}
	at := slices.IndexFunc(s.Ports, func(o ServicePort) bool { return o.Protocol == p.protocol && o.Port == p.dst })
	if at < 0 {
		return true
	}
	for _, t := range w.talks {
		if t.client == p.from && t.service == number && t.port.equal(s.Ports[at]) && t.sport == p.src && t.provider >= 0 {
			if arrival := w.translated(p, frame, t.provider, t); arrival != nil {
				f.must[t.provider] = arrival
			}
			return true
		}
	}
	f.oneOf = map[int][]byte{}
	for i, e := range w.endpoints {
		if e.VRF != s.VRF || !slices.Contains(s.Providers, like(e, p.to)) {
			continue
		}
		if arrival := w.translated(p, frame, i, talk{service: number, port: s.Ports[at]}); arrival != nil {
			f.oneOf[i] = arrival
		} else {
			f.none = true
		}
	}
	return true
}

// translated returns a request as its provider gets it, nil if the rules deny it: they match client and provider
// only.
func (w *world) translated(p probeFrame, frame []byte, provider int, t talk) []byte {
	e, s := w.endpoints[provider], w.services[t.service]
	p.to, p.dst = like(e, p.to), t.port.Target
	if !w.allows(p, w.groupOf(p.from), e.Group) {
		return nil
	}
	frame = w.carried(s, p.from, provider, withPort(withDestination(frame, p.to), 2, t.port.Target))
	if provider == p.from {
		frame = withMACs(withSource(frame, asItself(s)), AnycastMAC, e.MAC)
	}
	return frame
}

// carried returns a frame after its way from a client to a provider: bridged, or routed by one node, or by both.
func (w *world) carried(s Service, client, provider int, frame []byte) []byte {
	from, to := w.endpoints[client].MAC, w.endpoints[provider].MAC
	switch {
	case s.Mode.Bridged():
		return withMACs(frame, from, to)
	case w.encap == VLAN && client%3 != provider%3:
		return routed(routed(frame, to), to)
	}
	return routed(frame, to)
}

// fromService translates the answer of a provider to what the client gets.
func (w *world) fromService(p probeFrame, frames map[int][]byte) {
	for _, t := range w.talks {
		if t.answers(p) && like(w.endpoints[t.client], p.to) == p.to && w.endpoints[t.client].VRF == w.endpoints[p.from].VRF {
			for wire, frame := range frames {
				frames[wire] = withPort(withSource(frame, vipOf(w.services[t.service])), 0, t.port.Port)
			}
		}
	}
}

func (t talk) answers(p probeFrame) bool {
	return t.provider == p.from && t.port.Protocol == p.protocol && t.port.Target == p.src && t.sport == p.dst
}

// hairpinned sets the fate of a provider's answer to itself, and reports whether it is one.
func (w *world) hairpinned(p probeFrame, frame []byte, f *fate) bool {
	e := w.endpoints[p.from]
	for _, t := range w.talks {
		s := w.services[t.service]
		if t.client != p.from || p.to != asItself(s) || !t.answers(p) {
			continue
		}
		if p.to = like(e, p.to); w.allows(p, e.Group, e.Group) {
			frame = w.carried(s, p.from, p.from, withDestination(frame, p.to))
			f.must[p.from] = withMACs(withPort(withSource(frame, vipOf(s)), 0, t.port.Port), AnycastMAC, e.MAC)
		}
		return true
	}
	return false
}

// newTalks returns connections from some endpoints to every service, each with a port of its own.
func (w *world) newTalks() (all []talk) {
	for number, s := range w.services {
		for i, e := range w.endpoints {
			if w.inReach(s, e) && chance(w.rand, 50) {
				w.ports++
				all = append(all, talk{client: i, service: number, port: pick(w.rand, s.Ports...), sport: firstPort + w.ports, provider: -1})
			}
		}
	}
	return all
}

// request returns the next packet of the client; until the first answer, that is the first packet.
func (w *world) request(t talk) probeFrame {
	return w.sized(probeFrame{from: t.client, to: vipOf(w.services[t.service]), protocol: t.port.Protocol, src: t.sport, dst: t.port.Port,
		syn: !t.answered, ack: t.answered})
}

// answer returns the provider's answer.
func (w *world) answer(t talk) probeFrame {
	s := w.services[t.service]
	p := probeFrame{from: t.provider, to: like(w.endpoints[t.client], vipOf(s)), protocol: t.port.Protocol, src: t.port.Target, dst: t.sport,
		syn: !t.answered, ack: true, answer: true}
	if t.client == t.provider {
		p.to = asItself(s)
	}
	return w.sized(p)
}

// sized gives a packet some data, or none if it opens a TCP connection. A fragmented datagram can be assigned to a
// service's port if it belongs to a connection, or if there is only one UDP port; providers do not send fragments
// to themselves.
func (w *world) sized(p probeFrame) probeFrame {
	room := probeMTU - 20 - len(p.header())
	if p.to.Is6() {
		room -= 20
	}
	sizes := []int{0, 1, room}
	known := p.answer && p.to != familyOf(p.to).hairpinAddress()
	if at := w.serviceAt(w.endpoints[p.from].VRF, p.to); at >= 0 {
		s := w.services[at]
		known = (p.ack || onlyOneUDP(s)) && !slices.Contains(slices.Concat(s.Providers, s.Draining), like(w.endpoints[p.from], p.to))
	}
	if p.protocol == 17 && known {
		sizes = append(sizes, room+1, 9000)
	}
	if p.size = len(p.header()); p.protocol != 6 || !p.syn {
		p.size += pick(w.rand, sizes...)
	}
	w.address(&p)
	return p
}

// onlyOneUDP reports whether a service of a world has exactly one UDP port.
func onlyOneUDP(s Service) bool {
	isUDP := func(p ServicePort) bool { return p.Protocol == 17 }
	return len(slices.DeleteFunc(slices.Clone(s.Ports), func(p ServicePort) bool { return !isUDP(p) })) == 1
}
