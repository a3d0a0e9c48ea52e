package pipeline

import (
	"fmt"
	"net/netip"
	"testing"
)

// Thousands of rules at once, each matching a little of what endpoints send, so that many of them decide about
// some packet. Each packet matches one of them, or misses it by a port; the oracle evaluates all of them one after
// the other.

// The number of rules, and of packets under them.
const (
	thousands   = 4000
	underThem   = 400
	portsOfThem = 40
)

// judgedByThousands sends packets in a world with so many rules that a switch cannot evaluate them in turn.
func (c *cluster) judgedByThousands(t *testing.T, w *world, m *mailbox) {
	m.forget()
	w.rules = nil
	for i := range thousands {
		w.rules = append(w.rules, w.narrowRule(i))
	}
	for _, n := range c.nodes {
		n.replace(t, w.wants(n))
	}
	probes := w.ruledProbes(underThem)
	arrived := 0
	for _, at := range m.exchange(t, w, probes) {
		arrived += min(1, len(at))
	}
	decided := len(w.deciding(probes))
	t.Logf("%d of %d packets passed, %d of %d rules decided", arrived, len(probes), decided, len(w.rules))
	if few := underThem / 5; arrived < few || len(probes)-arrived < few || decided < few {
		t.Errorf("of %d packets %d passed, and %d rules decided: too much is alike to show anything", len(probes), arrived, decided)
	}
}

// narrowRule returns a rule for one port, or pings, and groups or a few addresses on either side.
func (w *world) narrowRule(number int) Rule {
	r := w.rand
	rule := Rule{ID: fmt.Sprint("narrow", number), Priority: 1 + r.IntN(MaxPriority), Allow: chance(r, 50), Protocol: pick[uint8](r, 1, 6, 6, 17, 17, 132)}
	if rule.Protocol != 1 {
		rule.DstPort = w.portOfThem()
		if chance(r, 20) {
			rule.SrcPort = w.portOfThem()
		}
	}
	if rule.Protocol == 6 && chance(r, 20) {
		rule.TCPFlags = "syn,!ack"
	}
	is4 := chance(r, 50)
	rule.SrcGroup, rule.Src = w.side(is4)
	rule.DstGroup, rule.Dst = w.side(is4)
	return rule
}

func (w *world) portOfThem() uint16 { return uint16(1 + w.rand.IntN(portsOfThem)) }

// side returns one side of a rule: a group, anyone, or addresses like an endpoint's.
func (w *world) side(is4 bool) (group uint16, at netip.Prefix) {
	for _, a := range pick(w.rand, w.endpoints...).addresses() {
		if a.Is4() == is4 && chance(w.rand, 50) {
			return 0, netip.PrefixFrom(a, a.BitLen()-pick(w.rand, 0, 0, 0, 2, 3)).Masked()
		}
	}
	return uint16(w.rand.IntN(4)), netip.Prefix{}
}

// ruledProbes returns packets that would arrive without rules, each between ports that a rule for its ends
// matches.
func (w *world) ruledProbes(count int) (all []probeFrame) {
	for tries := 0; len(all) < count && tries < 100*count; tries++ {
		from := w.rand.IntN(len(w.endpoints))
		p, ok := w.ruledProbe(from, pick(w.rand, pick(w.rand, w.endpoints...).addresses()...))
		if ok && len(w.without(p, p.frame).must) == 1 {
			all = append(all, p)
		}
	}
	return all
}

// ruledProbe returns a packet for the first rule, from a random place in the list on, that packets of an endpoint
// to an address can match.
func (w *world) ruledProbe(from int, to netip.Addr) (probeFrame, bool) {
	r := w.rand
	p := probeFrame{from: from, to: to}
	if p.sender = like(w.endpoints[from], to); !p.sender.IsValid() {
		return p, false
	}
	first := r.IntN(len(w.rules))
	for i := range w.rules {
		rule := &w.rules[(first+i)%len(w.rules)]
		p.protocol, p.src, p.dst, p.syn, p.ack = rule.Protocol, rule.SrcPort, rule.DstPort, rule.TCPFlags != "" || chance(r, 50), rule.TCPFlags == "" && chance(r, 50)
		if p.src == 0 {
			p.src = w.portOfThem()
		}
		if !w.fitsBetween(rule, &p) {
			continue
		}
		if p.dst > 0 && chance(r, 20) {
			p.dst++
		}
		p.size = len(p.header()) + r.IntN(2)
		return p, w.address(&p)
	}
	return p, false
}

// fitsBetween reports whether a rule matches a packet to an endpoint with its address; there may be several. It is
// called a million times, and copies nothing.
func (w *world) fitsBetween(r *Rule, p *probeFrame) bool {
	from := &w.endpoints[p.from]
	for i := range w.endpoints {
		if e := &w.endpoints[i]; e.VRF == from.VRF && (e.IPv4 == p.to || e.IPv6 == p.to) && r.fits(p, from.Group, e.Group) {
			return true
		}
	}
	return false
}

// deciding returns the rules of the highest priority that match one of the packets.
func (w *world) deciding(probes []probeFrame) map[string]bool {
	all := map[string]bool{}
	for _, p := range probes {
		best := &Rule{}
		for i := range w.rules {
			if r := &w.rules[i]; r.Priority > best.Priority && w.fitsBetween(r, &p) {
				best = r
			}
		}
		all[best.ID] = true
	}
	delete(all, "")
	return all
}
