package programmer

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// When an endpoint is removed its connections are ended, as otherwise the next owner of its address would have them.
// That begins when its flows are deleted, as a packet would create them again before. It is done twice, as the
// datapath may have the flows for another half second, unless it begins that late. Rounds and steps are those of
// ctflush.go.
//
// Until that is done the switch has a record of the endpoint (pipeline.Departed), for a driver that was killed
// meanwhile.
//
// Nothing reports an endpoint that was removed while no driver ran. In a routed network its flows do, which are
// still in the switch; those of a bridged one do not contain its addresses. Flows that no object wants do not
// mean that their endpoint is removed: its node may be unknown yet, or its port have no number.
const endpointRounds = 2

// kindDeparted is the kind of the owner of a removed endpoint's record.
const kindDeparted pipeline.Kind = "departed"

// flushEndpoint schedules the end of an endpoint's connections, those of each address separately: another
// endpoint may get one of them before the other's are ended.
func (l *books) flushEndpoint(e pipeline.Endpoint) {
	four, six := e, e
	four.IPv6, six.IPv4 = netip.Addr{}, netip.Addr{}
	l.flushAddress(four)
	l.flushAddress(six)
}

func (l *books) flushAddress(e pipeline.Endpoint) {
	connections := pipeline.ConnectionsOf(e)
	for _, c := range connections {
		l.flushing[c] = &ctFlush{connections: c, rounds: endpointRounds, waits: true, patient: true}
		l.leaving = true
	}
	if note, err := pack(pipeline.Departed(e)); err == nil && len(connections) > 0 { // it fails for no address
		owner := pipeline.Key{Kind: kindDeparted, ID: fmt.Sprint(e.VRF, e.IPv4, e.IPv6)}
		l.flows.set(owner, note.flows)
		l.departed[owner] = e
	}
}

// forgetDeparted deletes the records of endpoints whose connections are ended.
func (l *books) forgetDeparted() {
	for owner, e := range l.departed {
		if !slices.ContainsFunc(pipeline.ConnectionsOf(e), func(c openflow.CTFlush) bool { return l.flushing[c] != nil }) {
			l.flows.set(owner, nil)
			delete(l.departed, owner)
		}
	}
}

// flushUnknown schedules the end of connections of endpoints that the switch has flows of and that do not
// exist, and of their addresses that have changed. It does so once after a change with all that exist: later
// removals are reported by changes.
func (p *Programmer) flushUnknown() {
	known := make(map[uint64]*pipeline.Endpoint, len(p.known)+len(p.objects))
	taken := map[inVRF]bool{}
	for _, id := range p.known {
		known[cookie.New(cookie.Endpoint, id)] = nil
	}
	for key, object := range p.objects {
		if e, is := object.(pipeline.Endpoint); is {
			known[cookie.New(cookie.Endpoint, key.ID)] = &e
			for _, addr := range []netip.Addr{e.IPv4, e.IPv6} {
				taken[inVRF{e.VRF, addr}] = addr.IsValid()
			}
		}
	}
	if p.known == nil { // neither the existing endpoints nor the removed ones are known, except by records
		known = nil
	}
	p.known = nil
	p.books.flushAllBut(known, taken)
}

// inVRF is an address of a tenant.
type inVRF struct {
	vrf  uint16
	addr netip.Addr
}

// flushAllBut schedules the end of connections of endpoints with flows under unknown cookies, or with another
// address than the known one. The addresses of a known cookie without an endpoint are unknown. Addresses that
// are taken are spared. If known is nil, only those with a record are ended.
func (l *books) flushAllBut(known map[uint64]*pipeline.Endpoint, taken map[inVRF]bool) {
	for _, p := range slices.Clone(l.flows.list) {
		if !p.there {
			continue
		}
		flow := openflow.PackedFlow{Key: p.name, Effect: p.have}
		if known == nil && cookie.ClassOf(flow.Cookie()) != cookie.Departed {
			continue
		}
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
		if taken[inVRF{e.VRF, e.IPv4}] || taken[inVRF{e.VRF, e.IPv6}] {
			l.spareEndpoint(e) // another one has the address
		}
	}
}

// spareEndpoint spares the connections of an endpoint that has the address of a removed one: only the first
// round is done, which is urgent then, and if that is done, none.
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

// noteFlowsOut starts the waiting flushes once the switch has no unwanted flow.
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
