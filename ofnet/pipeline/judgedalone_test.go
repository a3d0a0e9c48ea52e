package pipeline

import (
	"fmt"
	"net/netip"
	"testing"
)

// What looks like an answer does not turn a later connection round if it was flooded: the endpoint whose address it has got
// no copy. Here neither end may send to the other, but both to a third one.
func TestAFloodedAnswerDoesNotTurnALaterConnectionRound(t *testing.T) {
	const sends, partners, others = 1, 2, 3 // classes
	lan4 := endpoint("lan4", lanBlue, 4, front)
	c := startCluster(t, lan1, lan2, lan4)
	for e, class := range map[string]uint16{lan1.ID: sends, lan2.ID: partners, lan4.ID: others} {
		c.pods[e].Class, c.pods[e].Tiers = class, Tracked
	}
	c.pod(lan1).Tiers, c.pod(lan2).Tiers = JudgesOut|IsolatesOut|Tracked, JudgesOut|IsolatesOut|Tracked
	c.judge(nil, allowing(true, sends, withPeers(others)), allowing(true, partners, withPeers(others)))
	sender, partner, witness := c.pod(lan1).wire(), c.pod(lan2).wire(), c.pod(lan4).wire()
	for i, at := range []mac{nobodysMAC, broadcast, lan4.MAC} {
		ahead, later := fmt.Sprintf("ahead %d.", i), fmt.Sprintf("later %d.", i)
		frame := udpFrame(at, lan1.MAC, lan2.IPv4, lan1.IPv4, ahead)
		frame[35] = byte(i) // a source port for each
		sender.send(frame)
		if witness.receive(soon, carrying(ahead)) == nil {
			t.Fatalf("%s does not get %q", lan4.ID, ahead)
		}
		begins := answerFrame(lan1.MAC, lan2.MAC, lan1.IPv4, lan2.IPv4, later)
		copy(begins[36:], frame[34:36])
		fence := fmt.Sprintf("fence %d.", i)
		for range 2 {
			partner.send(begins)
		}
		partner.send(ethernet(lan1.MAC, lan2.MAC, 0x88b5, []byte(fence)))
		if got := sender.texts(fence, later); len(got) > 0 {
			t.Errorf("sent to %x ahead: %s gets %q, which %s may not send", at, lan1.ID, got, lan2.ID)
		}
	}
}

// In a bridged network the receiver is found by the MAC. A packet with the address of another endpoint is judged for who gets
// it, and so does not admit a connection with that other one. Nor does an admitted connection admit its packets at other MACs.
func TestAPacketAtTheMACOfAnotherReceiverAdmitsNothingElse(t *testing.T) {
	const sends, denied, others = 1, 2, 3 // classes
	lan4, lan5 := endpoint("lan4", lanBlue, 4, front), endpoint("lan5", lanBlue, 5, front)
	c := startCluster(t, lan1, lan2, lan3, lan4, lan5)
	for e, class := range map[string]uint16{lan1.ID: sends, lan2.ID: denied, lan5.ID: denied, lan3.ID: others, lan4.ID: others} {
		c.pods[e].Class, c.pods[e].Tiers = class, Tracked
	}
	sender := c.pod(lan1).wire()
	first := inTier(FirstTier, 0, Deny)
	for i, s := range []struct {
		sender, receiver Tiers
		rules            []TierRule
	}{
		{JudgesOut, JudgesOut, []TierRule{allowing(true, sends, first, withPeers(denied)), allowing(true, denied, first, withPeers(sends))}},
		{JudgesOut | IsolatesOut, JudgesOut | IsolatesOut, []TierRule{allowing(true, sends, withPeers(others))}},
		{JudgesIn, JudgesIn, []TierRule{allowing(false, denied, first, withPeers(sends)), allowing(false, sends, first, withPeers(denied))}},
		{JudgesIn | IsolatesIn, JudgesIn | IsolatesIn, []TierRule{allowing(false, denied, withPeers(others))}},
	} {
		for _, pair := range [][2]Endpoint{{lan2, lan4}, {lan5, lan3}, {lan2, lan3}, {lan5, lan4}} { // on one node, or on two
			for _, six := range []bool{false, true} {
				to, open := pair[0], pair[1]
				theirs, others, own := to.IPv4, open.IPv4, lan1.IPv4
				if six {
					theirs, others, own = to.IPv6, open.IPv6, lan1.IPv6
				}
				c.pod(lan1).Tiers, c.pod(to).Tiers = s.sender|Tracked, s.receiver|Tracked
				c.judge(nil, s.rules...)
				receiver, witness := c.pod(to).wire(), c.pod(open).wire()
				text := func(what string) string {
					return fmt.Sprintf("%s %d to %s, not %s, IPv6 %v.", what, i, to.ID, open.ID, six)
				}
				gets := func(w *wire, what string) {
					t.Helper()
					if w.receive(soon, carrying(text(what))) == nil {
						t.Fatalf("%s does not get %q", w.pod.ID, text(what))
					}
				}
				getsNone := func(w, from *wire, whats ...string) {
					t.Helper()
					for j := range whats {
						whats[j] = text(whats[j])
					}
					from.send(ethernet(w.pod.MAC, from.pod.MAC, 0x88b5, []byte(text("fence"))))
					if got := w.texts(text("fence"), whats...); len(got) > 0 {
						t.Errorf("rules %d: %s gets %q of %s", i, w.pod.ID, got, from.pod.ID)
					}
				}
				sender.send(udpFrame(open.MAC, lan1.MAC, theirs, own, text("misled")))
				gets(witness, "misled")
				if s.receiver&JudgesOut != 0 || to.VTEP == lan1.VTEP { // else it begins a connection on its node, which the sender's denies
					receiver.send(answerFrame(lan1.MAC, to.MAC, own, theirs, text("answer")))
					getsNone(sender, receiver, "answer")
				}
				sender.send(udpFrame(to.MAC, lan1.MAC, theirs, own, text("direct")))
				getsNone(receiver, sender, "misled", "direct")

				sender.send(udpFrame(open.MAC, lan1.MAC, others, own, text("known")))
				gets(witness, "known")
				witness.send(answerFrame(lan1.MAC, open.MAC, own, others, text("known too")))
				gets(sender, "known too")
				sender.send(udpFrame(to.MAC, lan1.MAC, others, own, text("second")))
				getsNone(receiver, sender, "second")
			}
		}
	}
}

// answerFrame returns a datagram that answers one of udpFrame.
func answerFrame(dst, src mac, to, from netip.Addr, text string) []byte {
	frame := udpFrame(dst, src, to, from, text)
	ports := frame[34:38]
	if from.Is6() {
		ports = frame[54:58]
	}
	copy(ports, []byte{ports[2], ports[3], ports[0], ports[1]}) // which leaves the checksum as it is
	return frame
}
