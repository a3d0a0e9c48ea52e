package programmer

import (
	"encoding/binary"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// Flows that the switch learns end with their timeout, or with the last flow that learns them; but ovs-vswitchd
// learns some again after that, from packets that it counts late: within half a second if it is not busy.
// Audits remove those that no object wants, and one is scheduled soon after an object stopped learning. They do
// not count as changes by other programs.

// learned are the cookies of the flows that wanted objects learn.
type learned struct {
	cookies map[uint64]int // by the number of flows that learn them
	by      map[pipeline.Key][]uint64
	ended   bool // some are not learned any more, and no audit has been scheduled since
}

func newLearned() learned {
	return learned{cookies: map[uint64]int{}, by: map[pipeline.Key][]uint64{}}
}

// want sets what is learned for an owner.
func (l *learned) want(owner pipeline.Key, cookies []uint64) {
	before := l.by[owner]
	delete(l.by, owner)
	if len(cookies) > 0 {
		l.by[owner] = cookies
	}
	for _, c := range cookies {
		l.cookies[c]++
	}
	for _, c := range before {
		if l.cookies[c]--; l.cookies[c] == 0 {
			delete(l.cookies, c)
			l.ended = true
		}
	}
}

// isWanted reports whether a wanted object learns a learned flow.
func (l *learned) isWanted(f openflow.PackedFlow) bool { return l.cookies[cookieNumber(f.Effect)] > 0 }

// isLearned reports whether the switch has learned a flow from one of the driver's.
func isLearned(f openflow.PackedFlow) bool { return cookie.IsLearned(cookieNumber(f.Effect)) }

func cookieNumber(effect string) uint64 {
	c, _ := cookieOf(effect)
	return binary.BigEndian.Uint64([]byte(c))
}
