package pipeline

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// Worlds with classes: rules of all tiers decide about the endpoints of the world, some of which are isolated, in all
// landscapes. The oracle knows rules and directions, and no connections: each packet is the first one of its own.

const (
	classCount = 5  // in such a world; some endpoints have none
	tierRules  = 30 // in each tier
	underTiers = 300
)

// servedPorts are the ports that rules and packets are about.
var servedPorts = []uint16{80, 81, 443, 8080}

// judgedByClasses sends packets in a world whose endpoints have classes.
func (c *cluster) judgedByClasses(t *testing.T, w *world, m *mailbox) {
	m.forget()
	var probes []probeFrame
	for tries := 0; tries < 20 && !w.isMixed(probes); tries++ { // in some worlds nearly all packets are alike
		w.classify()
		probes = w.firstPackets(underTiers)
	}
	for _, n := range c.nodes {
		n.replace(t, w.wants(n))
		n.Appctl("dpctl/flush-conntrack")
	}
	arrived := 0
	for _, at := range m.exchange(t, w, probes) {
		arrived += min(1, len(at))
	}
	t.Logf("%d of %d packets passed the tiers", arrived, len(probes))
	if t.Failed() {
		t.Logf("with classes:\n%s", w)
	}
	if !w.isMixed(probes) {
		t.Errorf("of %d packets %d passed the tiers: too much is alike to show anything", len(probes), arrived)
	}
}

// isMixed reports whether there are enough packets, of which enough pass and enough do not, according to the oracle.
func (w *world) isMixed(probes []probeFrame) bool {
	pass, few := 0, underTiers/10
	for _, p := range probes {
		pass += min(1, len(w.fate(p, p.frame).must))
	}
	return len(probes) >= underTiers/2 && pass >= few && len(probes)-pass >= few
}

// classify gives a world rules of tiers in place of its own, and its endpoints classes and tiers.
func (w *world) classify() {
	w.rules, w.tierRules = nil, nil
	for i := range w.endpoints {
		e := &w.endpoints[i]
		if e.Class, e.Tiers = uint16(w.rand.IntN(classCount+1)), 0; e.Class == 0 {
			continue
		}
		e.Tiers = pick(w.rand, 0, JudgesOut, JudgesOut|IsolatesOut) | pick(w.rand, 0, JudgesIn, JudgesIn|IsolatesIn)
	}
	for tier := FirstTier; tier <= LastTier; tier++ {
		for i := range tierRules {
			w.tierRules = append(w.tierRules, w.newTierRule(tier, uint16(i)))
		}
	}
}

func (w *world) newTierRule(tier Tier, number uint16) TierRule {
	r := w.rand
	rule := TierRule{
		ID: fmt.Sprint("t", tier, ".", number), Tier: tier, Out: chance(r, 50), Number: uint32(tier)*tierRules + uint32(number) + 1,
		Subjects: w.someClasses(),
	}
	if tier != PolicyTier {
		rule.Rank, rule.Verdict = number, pick(r, Accept, Deny, Pass)
	}
	switch r.IntN(10) {
	case 0:
		rule.AnyPeer = true
	case 1:
		rule.AnyPod = true
	case 2, 3, 4:
		rule.Nets = []netip.Prefix{inet.Host(pick(r, pick(r, w.endpoints...).addresses()...))}
	default:
		rule.Peers = w.someClasses()
	}
	if chance(r, 70) {
		at := pick(r, servedPorts...)
		rule.Ports = []PortRange{{pick[uint8](r, openflow.ProtoTCP, openflow.ProtoUDP), at, at + uint16(r.IntN(2))}}
		if rule.Out && rule.Nets != nil && chance(r, 50) {
			rule.Serving = w.someClasses()
		}
	}
	return rule
}

// someClasses returns one or two classes, ascending.
func (w *world) someClasses() []uint16 {
	some := []uint16{uint16(1 + w.rand.IntN(classCount)), uint16(1 + w.rand.IntN(classCount))}
	slices.Sort(some)
	return slices.Compact(some)
}

// firstPackets returns first packets of connections between endpoints, which would arrive without rules, and floods.
// What leaves the cluster by its receiver's address is not among them.
func (w *world) firstPackets(count int) (all []probeFrame) {
	for tries := 0; len(all) < count && tries < 100*count; tries++ {
		p := probeFrame{from: w.rand.IntN(len(w.endpoints)), to: pick(w.rand, pick(w.rand, w.endpoints...).addresses()...), syn: true}
		p.sender = like(w.endpoints[p.from], p.to)
		if p.protocol = pick[uint8](w.rand, openflow.ProtoICMP, openflow.ProtoTCP, openflow.ProtoTCP, openflow.ProtoUDP); p.protocol != openflow.ProtoICMP {
			w.ports++
			p.src, p.dst = firstPort+w.ports, pick(w.rand, servedPorts...)
		}
		if p.size = len(p.header()); p.protocol != openflow.ProtoTCP && chance(w.rand, 10) {
			p.size = 2 * probeMTU
		}
		floods := !w.routes() && chance(w.rand, 40)
		if floods {
			w.flood(&p)
		}
		if p.sender.IsValid() && w.address(&p) && (floods && len(w.without(p, p.frame).must) > 0 || w.arrives(p)) {
			all = append(all, p)
		}
	}
	return all
}

// flood addresses a packet to everybody, also one with the address of an endpoint. What has no receiver's MAC is flooded
// as well, in tunnels.
func (w *world) flood(p *probeFrame) {
	groups := []netip.Addr{addr("255.255.255.255"), addr("224.0.0.251")}
	if p.to.Is6() {
		groups = []netip.Addr{addr("ff02::fb"), addr("ff05::2")}
	}
	p.to = pick(w.rand, p.to, pick(w.rand, groups...))
	if p.toAll = broadcast; w.encap == VXLAN && chance(w.rand, 30) {
		p.toAll = nobodysMAC
	}
}

// arrives reports whether a packet would arrive without rules, at the endpoint with its address only.
func (w *world) arrives(p probeFrame) bool {
	at := w.without(p, p.frame).must
	for wire := range at {
		return len(at) == 1 && wire < plugs && w.endpoints[wire].has(p.to)
	}
	return false
}

// areCopiesOfFragments reports whether a packet reaches the switch in fragments and is flooded: the connection tracker
// would mix those of several receivers.
func (p probeFrame) areCopiesOfFragments() bool {
	return p.toAll != (mac{}) && len(p.frame) > 14+probeMTU
}

// areCopiesOfAnAnswer reports whether a packet has the addresses and ports of an answer, but is flooded: rules are about the
// first packet of a connection, and to the connection tracker all copies belong to that.
func (p probeFrame) areCopiesOfAnAnswer() bool { return p.toAll != (mac{}) && p.begun != nil }

// isKnownWhereJudged reports whether the copy of an answer is judged on the node of one of the connection's ends. The tracker of
// another node does not know the connection: there it is a packet like others.
func (p probeFrame) isKnownWhereJudged(to int) bool {
	node := to % 3
	if to >= plugs { // on the sender's
		node = p.from % 3
	}
	return node == p.from%3 || node == p.begun.from%3
}

// tiersAdmit returns the verdict of the tiers about a connection's first packet in one direction.
func (w *world) tiersAdmit(p *probeFrame, to int, out bool) bool {
	s, subject := sides[out], to
	if out {
		subject = p.from
	}
	if !w.isolates(subject, s.judges) {
		return true
	}
	for _, tier := range []Tier{FirstTier, PolicyTier, LastTier} {
		first := slices.IndexFunc(w.tierRules, func(r TierRule) bool { // they are in the order of their ranks
			return r.Tier == tier && r.Out == out && w.matches(&r, p, to)
		})
		switch {
		case first < 0 && tier == PolicyTier && w.isolates(subject, s.isolates):
			return false
		case first >= 0 && w.tierRules[first].Verdict != Pass:
			return w.tierRules[first].Verdict == Accept
		}
	}
	return true
}

// matches reports whether a rule is about a connection's first packet.
func (w *world) matches(r *TierRule, p *probeFrame, to int) bool {
	subject, peer, at := w.classOf(to), w.classOf(p.from), p.sender
	if r.Out {
		subject, peer, at = peer, subject, p.to
	}
	return slices.Contains(r.Subjects, subject) &&
		(r.AnyPeer || r.AnyPod && peer != 0 || slices.Contains(r.Peers, peer) || slices.ContainsFunc(r.Nets, func(n netip.Prefix) bool { return n.Contains(at) })) &&
		(r.Serving == nil || slices.Contains(r.Serving, w.classOf(to))) &&
		(r.Ports == nil || slices.ContainsFunc(r.Ports, func(s PortRange) bool { return s.Protocol == p.protocol && s.First <= p.dst && p.dst <= s.Last }))
}

func (w *world) classOf(wire int) uint16 {
	if wire >= plugs {
		return 0
	}
	return w.endpoints[wire].Class
}
