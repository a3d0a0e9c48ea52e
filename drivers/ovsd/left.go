package ovsd

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// When an endpoint is gone its connections are ended, or whoever gets its address next would have
// them. That begins when its flows are out, as a packet would make them anew before. It is done twice, as for
// half a second more the datapath may know the flows. Rounds and steps are those of endings.go.
//
// Of an endpoint that went while no driver ran nobody tells. Its flows do, which are still in the switch.
const leftRounds = 2

// leave has the connections of an endpoint ended.
func (l *ledger) leave(e pipeline.Endpoint) {
	for _, c := range pipeline.ConnectionsOf(e) {
		l.ending[c] = &ending{connections: c, rounds: leftRounds, waits: true}
		l.leaving = true
	}
}

// leaveUnknown has the connections ended of endpoints that the switch has flows of and nobody wants.
func (l *ledger) leaveUnknown() {
	for _, p := range l.flows.list {
		if !p.there || slices.ContainsFunc(p.claims, func(c claim[string]) bool { return ofOneObject(c.thing, p.have) }) {
			continue
		}
		e, is := pipeline.ReceiverOf(openflow.PackedFlow{Key: p.name, Effect: p.have}.Flow())
		if !is {
			continue
		}
		l.leave(e)
		if len(p.claims) > 0 {
			l.enterEndpoint(e) // another one has the address
		}
	}
}

// enterEndpoint spares the connections of an endpoint that has the address of one that has left: there are no more
// rounds than the first, and if that has been, none.
func (l *ledger) enterEndpoint(e pipeline.Endpoint) {
	if len(l.ending) == 0 {
		return
	}
	e.Local, e.Tiers = true, pipeline.Tracked // all of the other one's, wherever it was
	for _, c := range pipeline.ConnectionsOf(e) {
		switch old := l.ending[c]; {
		case old == nil:
		case old.begun:
			delete(l.ending, c)
		default:
			old.rounds = 1
		}
	}
}

// noteFlowsOut lets what waits begin once the switch has no flow that it should not have.
func (l *ledger) noteFlowsOut() {
	if !l.leaving || l.unfinished() {
		return
	}
	for _, e := range l.ending {
		e.waits = false
	}
	l.leaving = false
}
