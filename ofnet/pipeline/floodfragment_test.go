package pipeline

import (
	"strings"
	"testing"
)

// A receiver who may have later fragments only does not get the first one of another's copy,
// which the connection tracker could add to them.
func TestFragmentsOfFloodedCopiesAreNotMixed(t *testing.T) {
	c := startCluster(t, lan1, lan2, lan3)
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
		for _, to := range []struct {
			pod, fenced Endpoint
			want        int
		}{{lan3, lan2, 0}, {lan2, lan3, test.others}} {
			w, fence := c.pod(to.pod).wire(), c.pod(to.fenced).wire()
			frame := udpFrame(broadcast, lan1.MAC, addr("10.1.4.255"), lan1.IPv4, "the first one"+strings.Repeat("x", 2000))
			for _, part := range fragments(frame, probeMTU) {
				c.pod(lan1).wire().send(part)
			}
			fence.send(udpFrame(to.pod.MAC, to.fenced.MAC, to.pod.IPv4, to.fenced.IPv4, "fence"))
			if got := w.got("fence", "the first one"); got != to.want {
				t.Errorf("sender with tiers %d: %s gets the first fragment %d times, want %d", test.sender, to.pod.ID, got, to.want)
			}
		}
	}
}
