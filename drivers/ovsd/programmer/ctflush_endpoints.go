package programmer

import (
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// When an endpoint is gone its connections are ended, or whoever gets its address next would have
// them. That begins when its flows are out, as a packet would make them anew before. It is done twice, as for
// half a second more the datapath may know the flows, unless it begins that late. Rounds and steps are those of ctflush.go.
//
// Of an endpoint that went while no driver ran nobody tells. In a routed network its flows do, which are still in
// the switch; those of a bridged one do not say what addresses it had. That nobody wants flows does not mean that
// their endpoint has gone: its node may not be known yet, or its port have no number.
const endpointRounds = 2

// flushEndpoint has the connections of an endpoint ended.
func (l *books) flushEndpoint(e pipeline.Endpoint) {
	for _, c := range pipeline.ConnectionsOf(e) {
		l.flushing[c] = &ctFlush{connections: c, rounds: endpointRounds, waits: true, patient: true}
		l.leaving = true
	}
}

// flushUnknown has the connections ended of endpoints that the switch has flows of and nobody knows, and of the addresses
// that others have no more. It does so once after a change with all that exist: of those that go later the changes tell.
func (p *Programmer) flushUnknown() {
	if p.known == nil {
		return
	}
	known := make(map[uint64]*pipeline.Endpoint, len(p.known)+len(p.objects))
	for _, id := range p.known {
		known[cookie.New(cookie.Endpoint, id)] = nil
	}
	for key, object := range p.objects {
		if e, is := object.(pipeline.Endpoint); is {
			known[cookie.New(cookie.Endpoint, key.ID)] = &e
		}
	}
	p.known = nil
	p.books.flushAllBut(known)
}

// flushAllBut has the connections ended of endpoints with flows under cookies that are not known, or with another address
// than the one that is. Of a known cookie without an endpoint nobody says which addresses it has.
func (l *books) flushAllBut(known map[uint64]*pipeline.Endpoint) {
	for _, p := range l.flows.list {
		if !p.there {
			continue
		}
		flow := openflow.PackedFlow{Key: p.name, Effect: p.have}
		now, isKnown := known[flow.Cookie()]
		if isKnown && now == nil {
			continue
		}
		e, is := pipeline.ReceiverOf(flow.Flow())
		if !is {
			continue
		}
		if isKnown {
			if e = e.Without(*now); !e.IPv4.IsValid() && !e.IPv6.IsValid() {
				continue
			}
		}
		l.flushEndpoint(e)
		if len(p.claims) > 0 {
			l.spareEndpoint(e) // another one has the address
		}
	}
}

// spareEndpoint spares the connections of an endpoint that has the address of one that has left: there are no more
// rounds than the first, which is urgent then, and if that has been, none.
func (l *books) spareEndpoint(e pipeline.Endpoint) {
	if len(l.flushing) == 0 {
		return
	}
	e.Local, e.Tiers = true, pipeline.Tracked // all of the other one's, wherever it was
	for _, c := range pipeline.ConnectionsOf(e) {
		switch old := l.flushing[c]; {
		case old == nil:
		case old.begun:
			delete(l.flushing, c)
		default:
			old.rounds, old.patient = 1, false
		}
	}
}

// noteFlowsOut lets what waits begin once the switch has no flow that it should not have.
func (l *books) noteFlowsOut(now time.Time) {
	if !l.leaving || l.unfinished() {
		return
	}
	for _, e := range l.flushing {
		if e.waits {
			e.waits, e.out = false, now
		}
	}
	l.leaving = false
}
