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

// When a provider goes, the connections that were translated to it are ended,
// again and again for a while, for two reasons:
//
//   - A packet that comes before the datapath knows of a changed group makes its
//     connection anew, as it was. ovs-vswitchd looks at all flows of the datapath
//     at least twice a second.
//   - Open vSwitch walks through its table of connections while it deletes from it,
//     and skips others; half of them have been seen to be left.
//
// For as long the group keeps the buckets that made them, without weight. So
// a driver that was killed meanwhile, or has lost its connection, finds in the
// switch what is still to be ended.
//
// A switch that lost its groups may have kept its connections, as the kernel does when ovs-vswitchd
// is started again. What the groups made that were there before is ended as well, if nothing makes it now.
//
// Each flush walks through the whole table, and ovs-vswitchd does nothing else
// meanwhile. So what is to be ended waits in a queue, from which a step takes a few; how many,
// and when the next step comes, flushpace.go says. First rounds come first.
const (
	flushRounds = 5
	flushPasses = 3           // in a round
	flushPause  = time.Second // between rounds, at least
)

// kindFlushed is the kind of who claims the buckets of a group that are to be ended.
const kindFlushed pipeline.Kind = "flushed"

// flushes are the connections that no wanted group makes, and buckets in the
// switch have made.
type flushes struct {
	leaving  bool                               // there may be some of endpoints that wait for flows to be out
	departed map[pipeline.Key]pipeline.Endpoint // those that the switch has a note of

	made     map[openflow.CTFlush]int            // by how many wanted groups; with any provider, too
	makes    map[pipeline.Key][]openflow.CTFlush // by the owner of the groups
	flushing map[openflow.CTFlush]*ctFlush
	queue    []*ctFlush                // have a round to come now
	former   map[openflow.CTFlush]bool // made by groups that the switch had before it was looked up anew
}

// ctFlush ends one kind of connections, in rounds.
type ctFlush struct {
	connections openflow.CTFlush
	groups      []string // the places of the buckets that have made them; none: there are no such, or they are those of an endpoint that has left
	rounds      int      // to come; 0: the buckets may go
	passes      int      // that the round to come has had
	begun       bool     // it has had a round
	patient     bool     // nobody is served wrongly meanwhile: others go first, and the switch has time for its work
	waits       bool     // for the flows of the endpoint to be out
	queued      bool

	out   time.Time // when the flows of the endpoint were seen to be out
	ended time.Time // when the last round was over
}

func newFlushes() flushes {
	return flushes{departed: map[pipeline.Key]pipeline.Endpoint{}, made: map[openflow.CTFlush]int{}, makes: map[pipeline.Key][]openflow.CTFlush{}, flushing: map[openflow.CTFlush]*ctFlush{}, former: map[openflow.CTFlush]bool{}}
}

// want enters what connections the groups of an owner make.
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

// forgetFlushes forgets what is being ended; what is left of it is in the switch. Of endpoints
// that have left nothing is there.
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

// noteFormer notes what the groups in the switch make, which is about to be forgotten.
func (l *books) noteFormer() {
	for _, p := range l.groups.list {
		for _, c := range pipeline.Connections(p.have) {
			l.former[c] = true
		}
	}
}

// flushFormer has the connections ended that nothing makes any more and whose buckets are not in the
// switch, which had them before.
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

// queueFlushes queues the connections whose group has changed and that have not had a
// round yet, or all others as well whose last round was long enough ago.
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
	} else { // addresses of pods that have gone are given again in turn
		l.queue = slices.Concat(urgent, l.queue, patient)
	}
}

// isDone tells whether a flush is complete: there is a provider again, the buckets are gone, or, without a provider, all rounds
// have run.
func (l *books) isDone(e *ctFlush) bool {
	if len(e.groups) == 0 {
		return e.rounds == 0 || l.made[e.connections] > 0
	}
	return l.made[e.connections] > 0 || !slices.ContainsFunc(l.placesOf(e), func(p *place[openflow.Group]) bool {
		return e.rounds > 0 || slices.Contains(pipeline.Connections(p.have), e.connections)
	})
}

// placesOf are the groups that have made the connections, as far as they are left.
func (l *books) placesOf(e *ctFlush) (places []*place[openflow.Group]) {
	for _, name := range e.groups {
		if p := l.groups.places[name]; p != nil {
			places = append(places, p)
		}
	}
	return places
}

// due tells whether the next round of a flush may run: the first one only when the buckets get no new connections.
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

// nextFlushes returns the flushes of the next step, and those in the queue that have a pass by them; these
// stay in it until flushed is called. Where no wanted group makes connections to an
// address and port, one flush ends those to all its providers.
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

// noneUrgent tells whether all due flushes in the queue are patient.
func (l *books) noneUrgent() bool {
	return !slices.ContainsFunc(l.queue, func(e *ctFlush) bool { return !e.patient && l.due(e) })
}

// passesOfRound is how many passes the round to come has. After its first round a flush ends few connections, of which a table does
// not shrink where a walk through it is long: one that can wait has one pass then.
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

// flushed notes a pass, and takes what had its round off the queue.
func (l *books) flushed(ends []*ctFlush, long bool, began, ended time.Time) {
	for _, e := range ends {
		if !l.due(e) {
			e.queued = false
			continue
		}
		if e.patient && e.passes == 0 && began.Sub(e.out) >= flushPause {
			e.rounds = 1 // the datapath does not know the flows any more
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

// withAnyProvider is the flush of all connections to the same address and port, of any provider. One that names only
// the provider stays as it is: without it, it would be of all connections of the zone.
func withAnyProvider(c openflow.CTFlush) openflow.CTFlush {
	if c.To.IsValid() {
		c.From = netip.AddrPort{}
	}
	return c
}

// flushNothing lets the buckets go of a switch that cannot flush.
func (l *books) flushNothing() {
	l.queue = nil
	for _, e := range l.flushing {
		e.rounds, e.queued = 0, false
		l.releaseBuckets(e)
	}
}

// hasLater tells whether there are flushes with later rounds, or departed endpoints to forget.
func (f *flushes) hasLater() bool {
	return len(f.departed) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(f.flushing)), func(e *ctFlush) bool { return e.rounds > 0 })
}
