package programmer

import (
	"cmp"
	"context"
	"errors"
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
			f.made[toAny(c)]++
			f.makes[owner] = append(f.makes[owner], c, toAny(c))
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

// keepBuckets keeps those buckets in groups about to change whose connections have to be ended first, as far as they fit into
// a message beside those that are wanted: a group that does not fit would stay as it is, with providers that are gone. The
// connections of the others are ended without a bucket, and by this run only.
func (l *books) keepBuckets() {
	for _, p := range slices.Clone(l.groups.dirty) {
		if !p.pending {
			continue
		}
		var ends []openflow.CTFlush
		for _, c := range pipeline.Connections(p.have) {
			if l.made[c] > 0 {
				continue
			}
			if l.flushOf(c, p.name).rounds > 0 {
				ends = append(ends, c)
			}
		}
		var rest []entry[openflow.Group]
		if len(ends) > 0 {
			wanted, _ := wantedBy(p.claims)
			kept, left := fitting(pipeline.Ending(p.have, ends), openflow.GroupRoom-sizeOf(wanted.thing))
			for _, c := range left {
				l.flushing[c].leave(p.name)
			}
			rest = []entry[openflow.Group]{{p.name, kept}}
		}
		l.groups.set(pipeline.Key{Kind: kindFlushed, ID: p.name}, rest)
	}
}

// fitting is what fits of a group of buckets that are to be ended, and what connections the others make.
func fitting(g openflow.Group, room int) (kept openflow.Group, left []openflow.CTFlush) {
	kept = openflow.Group{ID: g.ID, Type: g.Type}
	for _, b := range g.Buckets {
		if room -= b.Size(); room < 0 {
			left = append(left, pipeline.Connections(openflow.Group{Buckets: []openflow.Bucket{b}})...)
			continue
		}
		kept.Buckets = append(kept.Buckets, b)
	}
	return kept, left
}

func sizeOf(g openflow.Group) (bytes int) {
	for _, b := range g.Buckets {
		bytes += b.Size()
	}
	return bytes
}

// leave notes that a group keeps no bucket of the connections.
func (e *ctFlush) leave(group string) {
	e.groups = slices.DeleteFunc(e.groups, func(g string) bool { return g == group })
}

// flushOf ends connections that a group has made. Several groups make the same ones, for clients of
// different kinds; with each that comes the rounds begin anew.
func (l *books) flushOf(c openflow.CTFlush, group string) *ctFlush {
	e := l.flushing[c]
	switch {
	case e == nil || len(e.groups) == 0:
		e = &ctFlush{connections: c, groups: []string{group}, rounds: flushRounds}
		l.flushing[c] = e
	case !slices.Contains(e.groups, group):
		e.groups, e.rounds, e.begun = append(e.groups, group), flushRounds, false
	}
	return e
}

// uniteGroups adds the buckets that are to be ended to those that an object wants.
func uniteGroups(_ string, claims []claim[openflow.Group]) claim[openflow.Group] {
	best, there := wantedBy(claims)
	i := slices.IndexFunc(claims, isFlushed)
	if i < 0 || !there {
		return claims[len(claims)-1]
	}
	made := map[openflow.CTFlush]bool{}
	for _, c := range pipeline.Connections(best.thing) {
		made[c] = true
	}
	ends := slices.DeleteFunc(pipeline.Connections(claims[i].thing), func(c openflow.CTFlush) bool { return made[c] })
	best.thing.Buckets = slices.Concat(best.thing.Buckets, pipeline.Ending(claims[i].thing, ends).Buckets)
	return best
}

func isFlushed(c claim[openflow.Group]) bool { return c.owner.Kind == kindFlushed }

// wantedBy is what the object wants that came last, if there is one.
func wantedBy(claims []claim[openflow.Group]) (best claim[openflow.Group], there bool) {
	for _, c := range slices.Backward(claims) {
		if !isFlushed(c) {
			return c, true
		}
	}
	return best, false
}

// queueFlushes queues the connections whose group has changed and that have not had a
// round yet, or all others as well whose last round was long enough ago.
func (l *books) queueFlushes(everything bool, now time.Time) {
	l.noteFlowsOut(now)
	var urgent, patient []*ctFlush
	for c, e := range l.flushing {
		switch {
		case l.over(e):
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

// over tells whether there is nothing to end any more: there is a provider again, or the buckets
// have gone, or without one the rounds are over.
func (l *books) over(e *ctFlush) bool {
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

// due tells whether a flush may have a round now: the first only when nothing is sent
// to the buckets any more.
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
	patient := l.allPatient()
	for _, e := range l.queue {
		if l.due(e) {
			if e.patient != patient {
				continue
			}
			flush := e.connections
			if l.made[toAny(flush)] == 0 {
				flush = toAny(flush)
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

// allPatient tells whether nothing that is due in the queue is urgent.
func (l *books) allPatient() bool {
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

// passesLeft is how many passes are to come of the rounds in the queue.
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

// toAny are the connections to the same address and port, whoever answers them.
func toAny(c openflow.CTFlush) openflow.CTFlush {
	c.From = netip.AddrPort{}
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

// releaseBuckets lets the groups go without the buckets that they keep of the connections. Those
// of others are kept again when the groups are written.
func (l *books) releaseBuckets(e *ctFlush) {
	for _, p := range l.placesOf(e) {
		if slices.ContainsFunc(p.claims, func(c claim[openflow.Group]) bool {
			return isFlushed(c) && slices.Contains(pipeline.Connections(c.thing), e.connections)
		}) {
			l.groups.set(pipeline.Key{Kind: kindFlushed, ID: p.name}, nil)
		}
	}
}

// moreRounds tells whether there is something to end later, or to forget.
func (f *flushes) moreRounds() bool {
	return len(f.departed) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(f.flushing)), func(e *ctFlush) bool { return e.rounds > 0 })
}

// scheduleFlushes has connections ended: those that have had no round yet, or all that
// are to have one more.
func (p *Programmer) scheduleFlushes(again bool) {
	p.books.queueFlushes(again, time.Now())
	if p.flushAgain == nil && p.books.moreRounds() {
		p.flushAgain = time.After(flushPause)
	}
	p.planFlushes()
}

// planFlushes has the next step begin in time.
func (p *Programmer) planFlushes() {
	p.flushSoon = nil
	if len(p.books.queue) > 0 {
		p.flushSoon = time.After(time.Until(p.pace.next(p.books.allPatient(), p.books.passesLeft(p.pace.isLong()))))
	}
}

// flushSome ends the next few connections. What the switch does not answer is tried again.
func (p *Programmer) flushSome(ctx context.Context) {
	if p.sw == nil || !p.loaded {
		return // what is to be ended is looked up with the rest
	}
	began := time.Now()
	flushes, ends := p.books.nextFlushes(p.pace.atOnce())
	err := p.flush(ctx, flushes)
	ended := time.Now()
	p.pace.note(len(flushes), began, ended)
	switch {
	case err == nil:
		p.books.flushed(ends, p.pace.isLong(), began, ended)
	case isUnsupported(err):
		if !p.cannotFlush {
			p.log.WithError(err).Warn("connections to what has gone are not ended; they end when nothing is sent any more")
		}
		p.cannotFlush = true
		p.books.flushNothing()
	case isRefusal(err):
		p.log.WithError(err).Warn("connections to something that has gone are not ended")
		p.books.flushed(ends, p.pace.isLong(), began, ended)
	default:
		p.log.WithError(err).Warn("connections to what has gone are not ended yet")
	}
	p.planFlushes()
}

func (p *Programmer) flush(ctx context.Context, flushes []openflow.CTFlush) error {
	if len(flushes) == 0 {
		return nil
	}
	messages := make([]openflow.Message, 0, len(flushes))
	for _, f := range flushes {
		messages = append(messages, f)
	}
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return p.sw.Send(ctx, messages...)
}

func isRefusal(err error) bool {
	var refusal *openflow.Error
	return errors.As(err, &refusal)
}

func isUnsupported(err error) bool {
	var refusal *openflow.Error
	return errors.As(err, &refusal) && refusal.Unsupported()
}
