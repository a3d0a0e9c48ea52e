package programmer

import (
	"encoding/binary"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// Flows that the switch learns end with their time, or with the last flow that learns them; but
// ovs-vswitchd learns some anew after that, from packets that it counts late: within half a second
// if it is not busy. Audits remove what belongs to nobody, and one comes soon after somebody stopped
// learning. It is not taken for a change by somebody else.

// learned are the cookies of the flows that wanted objects learn.
type learned struct {
	cookies map[uint64]int // by how many flows
	by      map[pipeline.Key][]uint64
	ended   bool // something is learned no more, and no audit has been asked for since
}

func newLearned() learned {
	return learned{cookies: map[uint64]int{}, by: map[pipeline.Key][]uint64{}}
}

// want enters what is learned for an owner.
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

// isWanted tells whether a learned flow is one that a wanted object learns.
func (l *learned) isWanted(f openflow.PackedFlow) bool { return l.cookies[cookieNumber(f.Effect)] > 0 }

// isLearned tells whether the switch has learned a flow from one of ours.
func isLearned(f openflow.PackedFlow) bool { return cookie.IsLearned(cookieNumber(f.Effect)) }

func cookieNumber(effect string) uint64 {
	c, _ := cookieOf(effect)
	return binary.BigEndian.Uint64([]byte(c))
}
