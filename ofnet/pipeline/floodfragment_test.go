package pipeline

import (
	"fmt"
	"strings"
	"testing"
)

// A receiver who may have later fragments only does not get the first one of another's copy,
// which the connection tracker could add to them.
func TestFragmentsOfFloodedCopiesAreNotMixed(t *testing.T) {
	c := startCluster(t, lan1, lan2, lan3)
	sender, whole, later := c.pod(lan1).wire(), c.pod(lan2).wire(), c.pod(lan3).wire()
	for _, test := range []struct {
		sender Tiers
		others int // copies for who may have all of it
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
		// The sender's own ARP follows its fragments; what another port sends can overtake them.
		fence := fmt.Sprintf("fence of %d", test.sender)
		sender.send(append(arpFrame(lan1.MAC, lan1.IPv4, addr("10.1.4.77")), fence...))
		for w, want := range map[*wire]int{later: 0, whole: test.others} {
			if got := w.got(fence, "the first one"); got != want {
				t.Errorf("sender with tiers %d: %s gets the first fragment %d times, want %d", test.sender, w.pod.ID, got, want)
			}
		}
	}
}
