package programmer

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// When a provider of a service is removed, the entries of the connection tracker that translate to it are
// flushed. One flush does not remove them all, so it is repeated in rounds:
//
//   - Until the datapath has learned of the changed group, the next packet of a flushed connection makes
//     the same entry again. ovs-vswitchd revalidates all flows of the datapath at least twice a second.
//   - Open vSwitch deletes from the table that it iterates over, and skips entries; up to half of them
//     have been seen to be left.
//
// Until the last round the group keeps the buckets of the provider, with weight 0. They are the record of
// what is still to be flushed: a driver that was killed, or lost its connection, finds it in the switch.
//
// A switch that lost its groups may have kept its connections, as the kernel does when ovs-vswitchd is
// restarted. Connections that only the lost groups made are flushed as well.
//
// Each flush iterates over the whole table, and ovs-vswitchd's main thread does nothing else meanwhile. So
// flushes wait in a queue, first rounds in front, and each step takes a few of them; flushpace.go
// decides how many, and when the next step runs.
const (
	flushRounds = 5
	flushPasses = 3           // in a round
	flushPause  = time.Second // between rounds, at least
)

// kindFlushed is the kind of the owner that keeps buckets whose connections are being flushed.
const kindFlushed pipeline.Kind = "flushed"

// flushes are the connections to flush: no wanted group makes them, but buckets in the switch have made some.
type flushes struct {
	leaving  bool                               // some flushes may wait until flows of their endpoint are removed
	departed map[pipeline.Key]pipeline.Endpoint // removed endpoints that are recorded in the switch

	made     map[openflow.CTFlush]int            // how many wanted groups make them, also under withAnyProvider
	makes    map[pipeline.Key][]openflow.CTFlush // the same by owner of the groups
	flushing map[openflow.CTFlush]*ctFlush
	queue    []*ctFlush                // whose next round may run now
	former   map[openflow.CTFlush]bool // made by groups that the switch had before its state was read again
}

// ctFlush flushes one set of connections, in rounds.
type ctFlush struct {
	connections openflow.CTFlush
	groups      []string // names of the groups whose buckets have made them; empty if there are none, or for a removed endpoint
	rounds      int      // left; at 0 the buckets may be removed
	passes      int      // done of the current round
	begun       bool     // the first round is done
	patient     bool     // no packet is misdelivered meanwhile: other flushes go first, and the pace is slow
	waits       bool     // until the flows of the endpoint are removed
	queued      bool

	out   time.Time // when the flows of the endpoint were seen to be removed
	ended time.Time // when the last round ended
}

func newFlushes() flushes {
	return flushes{
		departed: map[pipeline.Key]pipeline.Endpoint{}, made: map[openflow.CTFlush]int{},
		makes: map[pipeline.Key][]openflow.CTFlush{}, flushing: map[openflow.CTFlush]*ctFlush{},
		former: map[openflow.CTFlush]bool{},
	}
}

// want records which connections the groups of an owner make.
func (f *flushes) want(owner pipeline.Key, groups []entry[openflow.Group]) {
	for _, c := range f.makes[owner] {
		if f.made[c]--; f.made[c] == 0 {
			delete(f.made, c)
		}
	}
	delete(f.makes, owner)
	for _, g := range groups {
		for _, c := range pipeline.Connections(g.thing) {
			f.made[c]++
			f.made[withAnyProvider(c)]++
			f.makes[owner] = append(f.makes[owner], c, withAnyProvider(c))
		}
	}
}

// forgetFlushes drops the flushes that can be read from the buckets in the switch again. Those of removed endpoints
// have no buckets and are kept.
func (l *books) forgetFlushes() {
	maps.DeleteFunc(l.flushing, func(_ openflow.CTFlush, e *ctFlush) bool { return len(e.groups) > 0 })
	for _, e := range l.flushing {
		e.queued = false
	}
	l.queue = nil
	for owner := range l.groups.owned {
		if owner.Kind == kindFlushed {
			l.groups.set(owner, nil)
		}
	}
}

// noteFormer records the connections that the groups in the switch make, before these are read again.
func (l *books) noteFormer() {
	for _, p := range l.groups.list {
		for _, c := range pipeline.Connections(p.have) {
			l.former[c] = true
		}
	}
}

// flushFormer flushes the connections of groups that the switch has lost, unless a wanted group makes them.
func (l *books) flushFormer() {
	for _, p := range l.groups.list {
		for _, c := range pipeline.Connections(p.have) {
			delete(l.former, c)
		}
	}
	for c := range l.former {
		if l.made[c] == 0 {
			l.flushing[c] = &ctFlush{connections: c, rounds: flushRounds}
		}
	}
	clear(l.former)
}

// queueFlushes queues the flushes that have had no round yet; with everything, also those whose last round ended
// at least flushPause ago.
func (l *books) queueFlushes(everything bool, now time.Time) {
	l.noteFlowsOut(now)
	var urgent, patient []*ctFlush
	for c, e := range l.flushing {
		switch {
		case l.isDone(e):
			delete(l.flushing, c)
			l.releaseBuckets(e)
		case !l.due(e) || e.queued || e.begun && (!everything || now.Sub(e.ended) < flushPause):
		case e.patient:
			patient = append(patient, e)
		default:
			urgent = append(urgent, e)
		}
	}
	l.forgetDeparted()
	for _, list := range [][]*ctFlush{urgent, patient} {
		for _, e := range list {
			e.queued = true
		}
		slices.SortFunc(list, func(a, b *ctFlush) int {
			return cmp.Or(cmp.Compare(b.rounds, a.rounds), a.connections.Compare(b.connections))
		})
	}
	if everything {
		l.queue = slices.Concat(l.queue, urgent, patient)
	} else { // new ones in front: the freed address of a pod may be assigned again soon
		l.queue = slices.Concat(urgent, l.queue, patient)
	}
}

// isDone reports whether a flush is complete: a wanted group makes its connections again, its buckets are removed,
// or, if it has none, all rounds have run.
func (l *books) isDone(e *ctFlush) bool {
	if len(e.groups) == 0 {
		return e.rounds == 0 || l.made[e.connections] > 0
	}
	return l.made[e.connections] > 0 || !slices.ContainsFunc(l.placesOf(e), func(p *place[openflow.Group]) bool {
		return e.rounds > 0 || slices.Contains(pipeline.Connections(p.have), e.connections)
	})
}

// placesOf returns the groups of a flush that still exist.
func (l *books) placesOf(e *ctFlush) (places []*place[openflow.Group]) {
	for _, name := range e.groups {
		if p := l.groups.places[name]; p != nil {
			places = append(places, p)
		}
	}
	return places
}

// due reports whether the next round of a flush may run. The first one waits until the switch has confirmed the groups
// in which the buckets have weight 0.
func (l *books) due(e *ctFlush) bool {
	if l.flushing[e.connections] != e || e.rounds == 0 || l.made[e.connections] > 0 {
		return false
	}
	if len(e.groups) == 0 {
		return !e.waits
	}
	places := l.placesOf(e)
	return len(places) > 0 && (e.begun || !slices.ContainsFunc(places, func(p *place[openflow.Group]) bool { return p.pending }))
}

// nextFlushes returns at most so many requests for the next step, and the queued flushes that they serve, which
// stay queued until flushed is called. If no wanted group makes connections to an address and port, one
// request covers those to all its providers.
func (l *books) nextFlushes(most int) (flushes []openflow.CTFlush, ends []*ctFlush) {
	patient := l.noneUrgent()
	for _, e := range l.queue {
		if l.due(e) {
			if e.patient != patient {
				continue
			}
			flush := e.connections
			if l.made[withAnyProvider(flush)] == 0 {
				flush = withAnyProvider(flush)
			}
			if !slices.Contains(flushes, flush) {
				if len(flushes) == most {
					break
				}
				flushes = append(flushes, flush)
			}
		}
		ends = append(ends, e)
	}
	return flushes, ends
}

// noneUrgent reports whether all due flushes in the queue are patient.
func (l *books) noneUrgent() bool {
	return !slices.ContainsFunc(l.queue, func(e *ctFlush) bool { return !e.patient && l.due(e) })
}

// passesOfRound returns how many passes the next round has. Rounds after the first one find few connections. If an
// iteration over the table takes long, those of a patient flush have a single pass.
func (e *ctFlush) passesOfRound(long bool) int {
	if long && e.patient && e.begun {
		return 1
	}
	return flushPasses
}

// passesLeft counts the remaining passes of the rounds in the queue.
func (l *books) passesLeft(long bool) (passes int) {
	for _, e := range l.queue {
		passes += e.passesOfRound(long) - e.passes
	}
	return passes
}

// flushed records a pass, and removes the flushes from the queue whose round is complete.
func (l *books) flushed(ends []*ctFlush, long bool, began, ended time.Time) {
	for _, e := range ends {
		if !l.due(e) {
			e.queued = false
			continue
		}
		if e.patient && e.passes == 0 && began.Sub(e.out) >= flushPause {
			e.rounds = 1 // the datapath has dropped the flows by now, nothing can make the connections anew
		}
		if e.passes++; e.passes < e.passesOfRound(long) {
			continue
		}
		e.queued, e.begun, e.passes, e.ended = false, true, 0, ended
		if e.rounds--; e.rounds == 0 {
			l.releaseBuckets(e)
		}
	}
	l.queue = slices.DeleteFunc(l.queue, func(e *ctFlush) bool { return !e.queued })
}

// withAnyProvider returns the flush of the connections to the same address and port with whatever provider. A
// flush that names only the provider stays as it is: without it, it would be of all connections of the zone.
func withAnyProvider(c openflow.CTFlush) openflow.CTFlush {
	if c.To.IsValid() {
		c.From = netip.AddrPort{}
	}
	return c
}

// flushNothing releases the buckets without flushing, for a switch that cannot flush.
func (l *books) flushNothing() {
	l.queue = nil
	for _, e := range l.flushing {
		e.rounds, e.queued = 0, false
		l.releaseBuckets(e)
	}
}

// hasLater reports whether flushes have rounds left, or departed endpoints have records to remove.
func (f *flushes) hasLater() bool {
	return len(f.departed) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(f.flushing)), func(e *ctFlush) bool { return e.rounds > 0 })
}
