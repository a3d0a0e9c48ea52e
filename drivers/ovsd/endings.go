package ovsd

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
// Each flush walks through the whole table, and ovs-vswitchd does nothing else
// meanwhile. So what is to be ended waits in a queue. A step takes a few from it; then
// the switch has as much time for others as the step took. First rounds come first.
const (
	endingRounds = 5
	endingPasses = 3           // in a round
	endingPause  = time.Second // between rounds, at least
	endingStep   = 4           // flushes, each of which is sent endingPasses times
)

// kindEnding is the kind of who claims the buckets of a group that are to be ended.
const kindEnding pipeline.Kind = "ending"

// endings are the connections that no wanted group makes, and buckets in the
// switch have made.
type endings struct {
	leaving bool // there may be some of endpoints that wait for flows to be out

	made   map[openflow.CTFlush]int            // by how many wanted groups; with any provider, too
	makes  map[pipeline.Key][]openflow.CTFlush // by the owner of the groups
	ending map[openflow.CTFlush]*ending
	queue  []*ending // have a round to come now
}

// ending is a kind of connections that are being ended.
type ending struct {
	connections openflow.CTFlush
	group       string // the place of the bucket that has made them; empty: those of an endpoint that has left
	rounds      int    // to come; 0: the bucket may go
	begun       bool   // it has had a round
	waits       bool   // for the flows of the endpoint to be out
	queued      bool
}

func newEndings() endings {
	return endings{made: map[openflow.CTFlush]int{}, makes: map[pipeline.Key][]openflow.CTFlush{}, ending: map[openflow.CTFlush]*ending{}}
}

// want enters what connections the groups of an owner make.
func (e *endings) want(owner pipeline.Key, groups []entry[openflow.Group]) {
	for _, c := range e.makes[owner] {
		if e.made[c]--; e.made[c] == 0 {
			delete(e.made, c)
		}
	}
	delete(e.makes, owner)
	for _, g := range groups {
		for _, c := range pipeline.Connections(g.thing) {
			e.made[c]++
			e.made[toAny(c)]++
			e.makes[owner] = append(e.makes[owner], c, toAny(c))
		}
	}
}

// forgetEndings forgets what is being ended; what is left of it is in the switch. Of endpoints
// that have left nothing is there.
func (l *ledger) forgetEndings() {
	maps.DeleteFunc(l.ending, func(_ openflow.CTFlush, e *ending) bool { return e.group != "" })
	for _, e := range l.ending {
		e.queued = false
	}
	l.queue = nil
	for owner := range l.groups.owned {
		if owner.Kind == kindEnding {
			l.groups.set(owner, nil)
		}
	}
}

// linger keeps those buckets in groups about to change whose connections have to
// be ended first.
func (l *ledger) linger() {
	for _, p := range slices.Clone(l.groups.dirty) {
		if !p.pending {
			continue
		}
		var ends []openflow.CTFlush
		for _, c := range pipeline.Connections(p.have) {
			if l.made[c] > 0 {
				continue
			}
			if l.ending[c] == nil {
				l.ending[c] = &ending{connections: c, group: p.name, rounds: endingRounds}
			}
			if l.ending[c].rounds > 0 {
				ends = append(ends, c)
			}
		}
		var rest []entry[openflow.Group]
		if len(ends) > 0 {
			rest = []entry[openflow.Group]{{p.name, pipeline.Ending(p.have, ends)}}
		}
		l.groups.set(pipeline.Key{Kind: kindEnding, ID: p.name}, rest)
	}
}

// uniteGroups adds the buckets that are to be ended to those that an object wants.
func uniteGroups(_ string, claims []claim[openflow.Group]) claim[openflow.Group] {
	isEnding := func(c claim[openflow.Group]) bool { return c.owner.Kind == kindEnding }
	wanted := slices.DeleteFunc(slices.Clone(claims), isEnding)
	best := claims[len(claims)-1]
	if len(wanted) > 0 {
		best = wanted[len(wanted)-1]
	}
	i := slices.IndexFunc(claims, isEnding)
	if i < 0 || len(wanted) == 0 {
		return best
	}
	made := pipeline.Connections(best.thing)
	ends := slices.DeleteFunc(pipeline.Connections(claims[i].thing), func(c openflow.CTFlush) bool { return slices.Contains(made, c) })
	best.thing.Buckets = slices.Concat(best.thing.Buckets, pipeline.Ending(claims[i].thing, ends).Buckets)
	return best
}

// queueEndings queues the connections whose group has changed and that have not had a
// round yet, or all others as well.
func (l *ledger) queueEndings(everything bool) {
	l.noteFlowsOut()
	var list []*ending
	for c, e := range l.ending {
		switch {
		case l.over(e):
			delete(l.ending, c)
		case l.due(e) && !e.queued && (everything || !e.begun):
			e.queued = true
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *ending) int {
		return cmp.Or(cmp.Compare(b.rounds, a.rounds), a.connections.Compare(b.connections))
	})
	if everything {
		l.queue = append(l.queue, list...)
	} else {
		l.queue = append(list, l.queue...)
	}
}

// over tells whether there is nothing to end any more: there is a provider again, or the bucket
// has gone, or the endpoint's rounds are over.
func (l *ledger) over(e *ending) bool {
	if e.group == "" {
		return e.rounds == 0
	}
	p := l.groups.places[e.group]
	return l.made[e.connections] > 0 || p == nil || e.rounds == 0 && !slices.Contains(pipeline.Connections(p.have), e.connections)
}

// due tells whether an ending may have a round now: the first only when nothing is sent
// to the bucket any more.
func (l *ledger) due(e *ending) bool {
	if l.ending[e.connections] != e || e.rounds == 0 {
		return false
	}
	if e.group == "" {
		return !e.waits
	}
	p := l.groups.places[e.group]
	return l.made[e.connections] == 0 && p != nil && (!p.pending || e.begun)
}

// endNext returns the flushes of the next step, and how many in the queue they end;
// those stay in it until ended is called. Where no wanted group makes connections to an
// address and port, one flush ends those to all its providers.
func (l *ledger) endNext() (flushes []openflow.CTFlush, count int) {
	for _, e := range l.queue {
		if l.due(e) {
			flush := e.connections
			if l.made[toAny(flush)] == 0 {
				flush = toAny(flush)
			}
			if !slices.Contains(flushes, flush) {
				if len(flushes) == endingStep {
					break
				}
				flushes = append(flushes, flush)
			}
		}
		count++
	}
	return flushes, count
}

// ended takes what had its round off the queue.
func (l *ledger) ended(count int) {
	for _, e := range l.queue[:count] {
		e.queued = false
		if !l.due(e) {
			continue
		}
		e.begun = true
		if e.rounds--; e.rounds == 0 && e.group != "" {
			l.lingerNoMore(l.groups.places[e.group])
		}
	}
	l.queue = l.queue[count:]
}

// toAny are the connections to the same address and port, whoever answers them.
func toAny(c openflow.CTFlush) openflow.CTFlush {
	c.From = netip.AddrPort{}
	return c
}

// endNothing lets the buckets go.
func (l *ledger) endNothing() {
	l.queue = nil
	for _, e := range l.ending {
		e.rounds, e.queued = 0, false
		if p := l.groups.places[e.group]; p != nil {
			l.lingerNoMore(p)
		}
	}
}

// lingerNoMore has a group looked at again.
func (l *ledger) lingerNoMore(p *place[openflow.Group]) {
	l.groups.set(pipeline.Key{Kind: kindEnding, ID: p.name}, nil)
}

// moreRounds tells whether there is something to end later.
func (e *endings) moreRounds() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(e.ending)), func(e *ending) bool { return e.rounds > 0 })
}

// endConnections has connections ended: those that have had no round yet, or all that
// are to have one more.
func (p *programmer) endConnections(again bool) {
	p.ledger.queueEndings(again)
	if p.endAgain == nil && p.ledger.moreRounds() {
		p.endAgain = time.After(endingPause)
	}
	if p.endStep == nil && len(p.ledger.queue) > 0 {
		p.endStep = time.After(0)
	}
}

// endSome ends the next few connections. What the switch does not answer is tried again.
func (p *programmer) endSome(ctx context.Context) {
	if p.sw == nil || !p.loaded {
		return // what is to be ended is looked up with the rest
	}
	began := time.Now()
	flushes, count := p.ledger.endNext()
	switch err := p.flush(ctx, flushes); {
	case err == nil:
		p.ledger.ended(count)
	case isUnsupported(err):
		if !p.endsNothing {
			p.log.WithError(err).Warn("connections to what has gone are not ended; they end when nothing is sent any more")
		}
		p.endsNothing = true
		p.ledger.endNothing()
	case isRefusal(err):
		p.log.WithError(err).Warn("connections to something that has gone are not ended")
		p.ledger.ended(count)
	default:
		p.log.WithError(err).Warn("connections to what has gone are not ended yet")
	}
	if len(p.ledger.queue) > 0 {
		p.endStep = time.After(time.Since(began))
	}
}

func (p *programmer) flush(ctx context.Context, flushes []openflow.CTFlush) error {
	if len(flushes) == 0 {
		return nil
	}
	var messages []openflow.Message
	for range endingPasses {
		for _, f := range flushes {
			messages = append(messages, f)
		}
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
