package pipeline

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// A packet that is flooded reaches everybody, also if it has the addresses and ports of a connection that is admitted, or of
// its answers, or is an error about one. So rules apply to each copy for its receiver, on the sender's node and on others. A
// copy that looks like an answer has no rules, as those are about the first packet: it reaches who has none, from who has none.
func TestFloodedPacketsOfAKnownConnectionAreJudgedForTheirReceivers(t *testing.T) {
	const sends, answers, others = 1, 2, 3 // classes
	lan4 := endpoint("lan4", lanBlue, 4, front)
	c := startCluster(t, lan1, lan2, lan3, lan4)
	for e, class := range map[string]uint16{lan1.ID: sends, lan2.ID: answers, lan3.ID: others, lan4.ID: others} {
		c.pods[e].Class, c.pods[e].Tiers = class, Tracked
	}
	sender, partner := c.pod(lan1).wire(), c.pod(lan2).wire()
	third := []*wire{c.pod(lan3).wire(), c.pod(lan4).wire()}
	first := inTier(FirstTier, 0, Deny)
	for i, s := range []struct {
		name                      string
		sender, partner, receiver Tiers
		rules                     []TierRule
		reach                     int // copies that reach the others
	}{
		{"without rules", 0, 0, 0, nil, 1},
		{"the first tier denies egress", JudgesOut, 0, 0, []TierRule{allowing(true, sends, first, withPeers(others))}, 0},
		{"the first tier denies ingress", 0, 0, JudgesIn, []TierRule{allowing(false, others, first, withPeers(sends))}, 0},
		{"policies let it send to one", JudgesOut | IsolatesOut, 0, 0, []TierRule{allowing(true, sends, withPeers(answers))}, 0},
		{"policies let it send to all", JudgesOut | IsolatesOut, 0, 0, []TierRule{allowing(true, sends, withPeers(answers, others))}, 1},
		{"policies let all come but it", 0, 0, JudgesIn | IsolatesIn, []TierRule{allowing(false, others, withPeers(answers))}, 0},
		{"the first tier denies who answers to come", 0, 0, JudgesIn, []TierRule{allowing(false, others, first, withPeers(answers))}, 1},
		{"policies isolate who answers", 0, JudgesOut | IsolatesOut, 0, nil, 1},
	} {
		c.pod(lan1).Tiers, c.pod(lan2).Tiers = s.sender|Tracked, s.partner|Tracked
		for _, e := range []Endpoint{lan3, lan4} {
			c.pod(e).Tiers = s.receiver | Tracked
		}
		c.judge(nil, s.rules...)
		said, answered := fmt.Sprint("said ", i, "."), fmt.Sprint("answered ", i, ".")
		datagram := func(to mac, text string) []byte { return udpFrame(to, lan1.MAC, lan2.IPv4, lan1.IPv4, text) }
		answer := func(to mac, text string) []byte { return answerFrame(to, lan2.MAC, lan1.IPv4, lan2.IPv4, text) }
		sender.send(datagram(lan2.MAC, said))
		if partner.receive(soon, carrying(said)) == nil {
			t.Fatalf("%s: nothing arrives", s.name)
		}
		partner.send(answer(lan1.MAC, answered))
		if sender.receive(soon, carrying(answered)) == nil {
			t.Fatalf("%s: no answer arrives", s.name)
		}
		without := func(tiers Tiers) int { // copies of what rules cannot judge
			if tiers == 0 {
				return 1
			}
			return 0
		}
		flooded, failed := fmt.Sprint("flooded ", i, "."), fmt.Sprint("failed ", i, ".")
		copies := map[*wire]map[string]int{partner: {flooded: 1, failed: without(s.sender | s.partner)}}
		for _, w := range third { // for those with rules the error is about a connection of others
			copies[w] = map[string]int{flooded: s.reach, failed: without(s.sender | s.receiver)}
		}
		sender.send(datagram(nobodysMAC, flooded))
		sender.send(icmpError(nobodysMAC, lan1.MAC, lan2.IPv4, lan1.IPv4, answer(lan1.MAC, answered)[14:42], failed))
		expectCopies(t, s.name+", begun", sender.broadcasts, copies)

		echoed := fmt.Sprint("echoed ", i, ".")
		copies = map[*wire]map[string]int{sender: {echoed: without(s.sender | s.partner)}}
		for _, w := range third {
			copies[w] = map[string]int{echoed: without(s.partner | s.receiver)}
		}
		partner.send(answer(nobodysMAC, echoed))
		expectCopies(t, s.name+", answered", partner.broadcasts, copies)
	}
}

// broadcasts sends a frame with a text, to which no rule applies, to everybody.
func (w *wire) broadcasts(text string) { w.send(ethernet(broadcast, w.pod.MAC, 0x88b5, []byte(text))) }

// expectCopies counts flooded texts at several wires. A fence, flooded like them, may overtake the first packet of a flow that
// goes to ovs-vswitchd, so another one follows when all that has to arrive has done so.
func expectCopies(t *testing.T, when string, floods func(fence string), want map[*wire]map[string]int) {
	t.Helper()
	got, fences := map[*wire]map[string]int{}, 0
	await := func() (complete bool) {
		fences++
		complete = true
		fence := fmt.Sprintf("fence %d, %s.", fences, when)
		floods(fence)
		for at, copies := range want {
			if got[at] == nil {
				got[at] = map[string]int{}
			}
			for _, text := range at.texts(fence, slices.Collect(maps.Keys(copies))...) {
				got[at][text]++
			}
			for text, times := range copies {
				complete = complete && got[at][text] >= times
			}
		}
		return complete
	}
	testkit.Eventually(t, soon, "the copies come", await)
	await()
	for at, copies := range want {
		for text, times := range copies {
			if got[at][text] != times {
				t.Errorf("%s: %s gets %q %d times, want %d", when, at.pod.ID, text, got[at][text], times)
			}
		}
	}
}

// A flooded copy that one receiver may get does not admit the connection with the endpoint whose address it has: that one
// could answer, and then both would talk.
func TestACopyForOneReceiverDoesNotAdmitAConnectionWithAnother(t *testing.T) {
	const sends, denied, others = 1, 2, 3 // classes
	lan4, lan5 := endpoint("lan4", lanBlue, 4, front), endpoint("lan5", lanBlue, 5, front)
	c := startCluster(t, lan1, lan2, lan3, lan4, lan5)
	for e, class := range map[string]uint16{lan1.ID: sends, lan2.ID: denied, lan5.ID: denied, lan3.ID: others, lan4.ID: others} {
		c.pods[e].Class, c.pods[e].Tiers = class, Tracked
	}
	sender := c.pod(lan1).wire()
	witnesses := []*wire{c.pod(lan3).wire(), c.pod(lan4).wire()}
	silent := allowing(true, denied, inTier(FirstTier, 0, Deny), withPeers(sends)) // it may not begin a connection, either
	for i, s := range []struct {
		sender, receiver Tiers
		rule             TierRule
	}{
		{JudgesOut, JudgesOut, allowing(true, sends, inTier(FirstTier, 0, Deny), withPeers(denied))},
		{JudgesOut | IsolatesOut, JudgesOut, allowing(true, sends, withPeers(others))},
		{0, JudgesIn | JudgesOut, allowing(false, denied, inTier(FirstTier, 0, Deny), withPeers(sends))},
		{0, JudgesIn | IsolatesIn | JudgesOut, allowing(false, denied, withPeers(others))},
	} {
		for _, to := range []Endpoint{lan2, lan5} { // on the other node, and on the sender's
			c.pod(lan1).Tiers, c.pod(to).Tiers = s.sender|Tracked, s.receiver|Tracked
			c.judge(nil, s.rule, silent)
			receiver := c.pod(to).wire()
			datagram := func(at mac, text string) []byte { return udpFrame(at, lan1.MAC, to.IPv4, lan1.IPv4, text) }
			flooded, direct := fmt.Sprintf("flooded %d to %s.", i, to.ID), fmt.Sprintf("direct %d to %s.", i, to.ID)
			sender.send(datagram(nobodysMAC, flooded))
			for _, w := range witnesses {
				if w.receive(soon, carrying(flooded)) == nil {
					t.Fatalf("%s does not get %q", w.pod.ID, flooded)
				}
			}
			receiver.send(answerFrame(lan1.MAC, to.MAC, lan1.IPv4, to.IPv4, "answer to "+flooded))
			fence := fmt.Sprintf("fence %d of %s.", i, to.ID)
			receiver.send(ethernet(lan1.MAC, to.MAC, 0x88b5, []byte(fence)))
			if got := sender.got(fence, "answer to "+flooded); got != 0 {
				t.Errorf("rule %d: the answer of %s arrives", i, to.ID)
			}
			sender.send(datagram(to.MAC, direct))
			sender.send(ethernet(to.MAC, lan1.MAC, 0x88b5, []byte(fence)))
			if got := receiver.texts(fence, flooded, direct); len(got) > 0 {
				t.Errorf("rule %d: %s gets %q", i, to.ID, got)
			}
		}
	}
}

// texts returns which of some texts arrive, in their order, until a fence that follows them does.
func (w *wire) texts(fence string, some ...string) (all []string) {
	w.pod.t.Helper()
	in := func(f []byte) string {
		for _, text := range append(some, fence) {
			if bytes.Contains(f, []byte(text)) {
				return text
			}
		}
		return ""
	}
	for {
		frame := w.receive(soon, func(f []byte) bool { return in(f) != "" })
		if frame == nil {
			w.pod.t.Errorf("%s does not get %q", w.pod.ID, fence)
			return all
		}
		if in(frame) == fence {
			return all
		}
		all = append(all, in(frame))
	}
}
