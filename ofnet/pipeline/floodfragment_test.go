package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// A receiver that may get only later fragments does not get the first fragment of another receiver's copy, which
// the connection tracker could add to them.
func TestFragmentsOfFloodedCopiesAreNotMixed(t *testing.T) {
	c := startCluster(t, lan1, lan2, lan3)
	sender, whole, later := c.pod(lan1).wire(), c.pod(lan2).wire(), c.pod(lan3).wire()
	for _, test := range []struct {
		sender Tiers
		others int // copies for receivers that may get all of it
	}{{0, 1}, {Tracked, 1}, {isolated, 0}} {
		c.pod(lan1).Tiers = test.sender
		toFront := func(r *Rule) { r.SrcGroup, r.DstGroup = front, front }
		c.program(rule("nothing", 10, toFront), rule("but questions", 20, func(r *Rule) {
			toFront(r)
			r.Protocol, r.DstPort, r.Allow = 17, 53, true
		}))
		frame := udpFrame(broadcast, lan1.MAC, addr("10.1.4.255"), lan1.IPv4, "the first one"+strings.Repeat("x", 2000))
		for _, part := range fragments(frame, probeMTU) {
			sender.send(part)
		}
		// The sender's own ARP follows its fragments, but on a busy machine it may overtake the first one of a flow
		// that goes to ovs-vswitchd. So there is another one after everything that has to arrive.
		got, fences := map[*wire]int{}, 0
		fence := func() {
			fences++
			text := fmt.Sprintf("fence %d of %d.", fences, test.sender)
			sender.send(append(arpFrame(lan1.MAC, lan1.IPv4, addr("10.1.4.77")), text...))
			for _, w := range []*wire{later, whole} {
				got[w] += w.got(text, "the first one")
			}
		}
		testkit.Eventually(t, soon, "the first fragment comes", func() bool {
			fence()
			return got[whole] >= test.others
		})
		fence()
		for w, want := range map[*wire]int{later: 0, whole: test.others} {
			if got[w] != want {
				t.Errorf("sender with tiers %d: %s gets the first fragment %d times, want %d", test.sender, w.pod.ID, got[w], want)
			}
		}
	}
}
