package pipeline

import "testing"

// Worlds with isolated endpoints and without policies: packets arrive that final rules of groups allow, of the
// sender's group in one direction, of the receiver's in the other. The oracle knows rules and directions, and no
// connections: each packet is the first one of its own.

// finals is the number of rules in such a world.
const finals = 300

// judgedFinally sends packets in a world in which many endpoints are isolated.
func (c *cluster) judgedFinally(t *testing.T, w *world, m *mailbox) {
	m.forget()
	var probes []probeFrame
	for tries := 0; tries < 20 && !w.showsFinals(probes); tries++ { // in one of some hundred worlds all isolated endpoints are alike
		probes = w.isolated()
	}
	for _, n := range c.nodes {
		n.replace(t, w.wants(n))
		n.Appctl("dpctl/flush-conntrack")
	}
	arrived, ended := 0, 0
	for i, at := range m.exchange(t, w, probes) {
		if arrived += min(1, len(at)); len(at) == 1 && w.needs(probes[i], at[0]) {
			ended++
		}
	}
	t.Logf("%d of %d packets passed, %d of them by rules that are final", arrived, len(probes), ended)
	if few := len(probes) / 100; ended < few || len(probes)-arrived < few || len(probes) < underThem/2 {
		t.Errorf("of %d packets %d passed, %d of them by rules that are final: too much is alike to show anything", len(probes), arrived, ended)
	}
}

// isolated gives a world new rules, isolates other endpoints, and returns first packets of connections between
// them.
func (w *world) isolated() (probes []probeFrame) {
	w.rules = nil
	for i := range finals {
		rule := w.narrowRule(i)
		rule.Allow = rule.Allow || chance(w.rand, 40)
		switch {
		case rule.SrcGroup != 0 && chance(w.rand, 60):
			rule.Ends = EndsOut
		case rule.DstGroup != 0 && chance(w.rand, 80):
			rule.Ends = EndsIn
		}
		w.rules = append(w.rules, rule)
	}
	for i := range w.endpoints {
		w.endpoints[i].Tiers = w.endpoints[i].Tiers&^isolating | pick(w.rand, 0, JudgesOut, JudgesOut|IsolatesOut, JudgesIn|IsolatesIn, JudgesIn|IsolatesIn|JudgesOut)
	}
	for _, p := range w.ruledProbes(underThem) {
		if !w.routes() && chance(w.rand, 30) {
			p = w.floodOf(p)
		}
		if w.begins(&p) {
			probes = append(probes, p)
		}
	}
	return probes
}

// isolating are the tiers from which isolated chooses.
const isolating = JudgesOut | IsolatesOut | JudgesIn | IsolatesIn

// showsFinals reports whether enough packets arrive by final rules, according to the oracle.
func (w *world) showsFinals(probes []probeFrame) bool {
	ended := 0
	for _, p := range probes {
		at := w.fate(p, p.frames()[0]).anywhere()
		for wire := range at {
			if len(at) == 1 && w.needs(p, wire) {
				ended++
			}
		}
	}
	return len(probes) >= underThem/2 && ended >= 2*len(probes)/100
}

// begins makes a packet the first one of a new connection.
func (w *world) begins(p *probeFrame) bool {
	if p.protocol == 6 {
		p.syn, p.ack = true, false
	}
	if p.protocol != 1 && p.src <= portsOfThem && chance(w.rand, 90) { // otherwise a rule may match the port
		w.ports++
		p.src = firstPort + w.ports
	}
	return w.address(p)
}

// admits reports whether the isolation of sender and receiver lets a packet pass, each by the final rules of its
// own group, or the tiers' rules for its class.
func (w *world) admits(p probeFrame, to int) bool {
	if p.areCopiesOfAnAnswer() && !p.isKnownWhereJudged(to) {
		p.begun = nil
	}
	if !w.lawless && (p.areCopiesOfFragments() || p.areCopiesOfAnAnswer()) {
		of := judgement // on the sender's node nothing distinguishes the directions
		if to < plugs && to%3 != p.from%3 {
			of = JudgesOut | IsolatesOut
		}
		return !w.isolates(p.from, of) && !w.isolates(to, judgement)
	}
	if p.begun != nil {
		p, to = *p.begun, p.from
	}
	if len(w.tierRules) > 0 {
		return w.lawless || w.tiersAdmit(&p, to, true) && w.tiersAdmit(&p, to, false)
	}
	return w.lawless || (!w.isolates(p.from, IsolatesOut) || w.ends(p, to, EndsOut)) && (!w.isolates(to, IsolatesIn) || w.ends(p, to, EndsIn))
}

// needs reports whether the sender's or the receiver's isolation applies to a packet.
func (w *world) needs(p probeFrame, to int) bool {
	return w.isolates(p.from, IsolatesOut) || w.isolates(to, IsolatesIn)
}

func (w *world) isolates(wire int, how Tiers) bool {
	return wire < plugs && w.endpoints[wire].Tiers&how != 0
}

// ends returns the verdict of one end's final rules for its direction: those with the highest priority decide, and
// each of them may deny.
func (w *world) ends(p probeFrame, to int, in Ends) bool {
	verdict, best := false, 0
	for i := range w.rules {
		switch r := &w.rules[i]; {
		case r.Ends != in || r.SrcPort != 0 || r.Priority < best || !r.fits(&p, w.groupOf(p.from), w.groupOf(to)):
		case r.Priority == best:
			verdict = verdict && r.Allow
		default:
			verdict, best = r.Allow, r.Priority
		}
	}
	return verdict
}
