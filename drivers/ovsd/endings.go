package ovsd

import (
	"context"
	"maps"
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
const (
	endingRounds = 5
	endingPasses = 3 // in a round
	endingPause  = time.Second
)

// kindEnding is the kind of who claims the buckets of a group that are to be ended.
const kindEnding pipeline.Kind = "ending"

// endings are the connections that no wanted group makes, and buckets in the
// switch have made.
type endings struct {
	made   map[openflow.CTFlush]int            // by how many wanted groups
	makes  map[pipeline.Key][]openflow.CTFlush // by the owner of the groups
	ending map[openflow.CTFlush]*ending
}

// ending is a kind of connections that are being ended.
type ending struct {
	group  string // the place of the bucket that has made them
	rounds int    // to come; 0: the bucket may go
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
			e.makes[owner] = append(e.makes[owner], c)
		}
	}
}

// forgetEndings forgets what is being ended; what is left of it is in the switch.
func (l *ledger) forgetEndings() {
	clear(l.ending)
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
				l.ending[c] = &ending{group: p.name, rounds: endingRounds}
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

// endNext returns the connections to end now: those whose group has changed and
// that have not had a round yet, or all others as well, which have one round less then.
func (l *ledger) endNext(everything bool) (list []openflow.CTFlush) {
	var over []*place[openflow.Group]
	for c, e := range l.ending {
		p := l.groups.places[e.group]
		switch {
		case l.made[c] > 0, p == nil, e.rounds == 0 && !slices.Contains(pipeline.Connections(p.have), c):
			delete(l.ending, c) // a provider again, or the bucket has gone
		case e.rounds > 0 && !p.pending && (everything || e.rounds == endingRounds):
			list = append(list, c)
			if e.rounds--; e.rounds == 0 {
				over = append(over, p)
			}
		}
	}
	for _, p := range over {
		l.lingerNoMore(p)
	}
	return list
}

// endNothing lets the buckets go.
func (l *ledger) endNothing() {
	for _, e := range l.ending {
		e.rounds = 0
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

// endConnections ends what has to be ended, and sees to it that it is done again.
func (p *programmer) endConnections(ctx context.Context, again bool) {
	list := p.ledger.endNext(again)
	if p.endAgain == nil && p.ledger.moreRounds() {
		p.endAgain = time.After(endingPause)
	}
	if len(list) == 0 || p.sw == nil {
		return
	}
	var messages []openflow.Message
	for range endingPasses {
		for _, c := range list {
			messages = append(messages, c)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	if err := p.sw.Send(ctx, messages...); err != nil {
		p.log.WithError(err).Warn("connections to providers that have gone are not ended; they end when nothing is sent any more")
		p.ledger.endNothing()
	}
}
