package pipeline

import (
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Worlds with classes whose rules change: connections begin before there are rules, and go on under one set of rules after
// the other. Each packet passes if the present rules admit the connection that it belongs to, whichever end sends it. In
// bridged networks packets with the addresses of connections are flooded besides: each copy is judged for its receiver, or
// dropped if it looks like an answer of a connection that the node knows.

// oldConnections is their number in a world at most.
const oldConnections = 60

// judgedAnew sends packets of connections that are older than the rules.
func (c *cluster) judgedAnew(t *testing.T, w *world, m *mailbox) {
	m.forget()
	for _, n := range c.nodes {
		n.Appctl("dpctl/flush-conntrack")
	}
	var requests []probeFrame
	for _, p := range w.firstPackets(4 * oldConnections) {
		if p.protocol == openflow.ProtoUDP && p.toAll == (mac{}) && !p.viaGateway && len(requests) < oldConnections {
			requests = append(requests, p)
		}
	}
	passed := 0
	for w.epoch = 1; w.epoch <= 4 && !t.Failed(); w.epoch++ {
		if w.classify(); w.epoch == 1 || w.epoch == 4 {
			w.tierRules = nil
		}
		for i := range w.endpoints {
			e := &w.endpoints[i]
			if len(w.tierRules) == 0 {
				e.Tiers = 0
			}
			e.Tiers |= Tracked
		}
		for _, n := range c.nodes {
			n.replace(t, w.wants(n))
		}
		var floods, answers, echoes []probeFrame
		for i := range requests {
			answer := w.answerTo(&requests[i])
			if answers = append(answers, answer); !w.routes() {
				floods, echoes = append(floods, w.floodOf(requests[i])), append(echoes, w.floodOf(answer))
			}
		}
		// In the first epoch the nodes of both ends get to know each connection before an answer is flooded.
		sent := [][]probeFrame{floods, requests, answers, echoes, requests, floods, answers}
		if w.epoch%2 == 0 {
			slices.Reverse(sent)
		}
		for _, packets := range sent {
			for i := range packets { // the connection tracker takes a fragment that it holds for the same one, by its number
				p := &packets[i]
				w.sent++
				p.number = w.sent
				p.frame = p.build(w.endpoints[p.from].MAC)
			}
			for _, at := range m.exchange(t, w, packets) {
				passed += min(1, len(at))
			}
		}
	}
	t.Logf("%d packets of %d connections passed", passed, len(requests))
	if t.Failed() {
		t.Logf("with old connections:\n%s", w)
	}
}

// answerTo returns what the receiver of a datagram sends back.
func (w *world) answerTo(p *probeFrame) probeFrame {
	to := slices.IndexFunc(w.endpoints, func(e Endpoint) bool { return e.VRF == w.endpoints[p.from].VRF && e.has(p.to) })
	a := probeFrame{from: to, to: p.sender, sender: p.to, protocol: p.protocol, src: p.dst, dst: p.src, begun: p, size: p.size}
	w.address(&a)
	return a
}

// floodOf returns a datagram for everybody with the addresses and ports of another one.
func (w *world) floodOf(p probeFrame) probeFrame {
	if p.toAll = broadcast; w.encap == VXLAN {
		p.toAll = nobodysMAC
	}
	w.address(&p)
	return p
}
