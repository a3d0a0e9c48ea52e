package e2e

import (
	"strconv"
	"time"
)

// packetSize is the size of the packets of a question, and of its answer.
type packetSize int

const (
	least packetSize = iota // as small as possible
	full                    // of the MTU, and not to be fragmented
	cut                     // too large for the MTU, in fragments
	packetSizes
)

// Packets that are cut have from a byte more than the largest MTU of pods on the test bed to so many bytes, or as
// many as networks with jumbo frames carry in one piece.
const (
	leastCut = 1501
	mostCut  = 6000
	jumbo    = 9000
)

// apart is the time between large questions of a pod; the switches of the test bed lose packets that they do not
// read in time.
const apart = 30 * time.Millisecond

func (s packetSize) String() string { return [packetSizes]string{"least", "full", "cut"}[s] }

// arguments returns the arguments of a pod's probe.
func (s packetSize) arguments(w *world, p *worldPod) []string {
	switch s {
	case full:
		return []string{"-apart", apart.String(), "-whole", "-packet", strconv.Itoa(p.mtu)}
	case cut:
		return []string{"-apart", apart.String(), "-packet", strconv.Itoa(w.packet)}
	}
	return nil
}
