package programmer

import (
	"context"
	"math/bits"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// The switch is compared with the book in two ways.
//
// On a new connection everything is read, flow by flow as it arrives, before anything is written: load.
//
// After that, an audit searches for changes by other programs. It must not delay other changes, so it is done
// in slices: a slice is some thousand flows, those of a table whose cookies, which are hashes, end in the same
// bits. A slice is read by a goroutine of its own while the programmer continues, and compared when it is
// complete. What was written after the slice was requested is newer than its contents: every place has the turn
// in which it was last written or seen, and a slice is ignored for places of its own turn.
//
// When all slices have been compared, places that were seen in none of them and not written since are lost.

// sliceSize is the approximate number of flows in a slice, auditShare the part of its time that the switch may
// spend on audits: 1/auditShare.
const (
	sliceSize  = 4096
	auditShare = 10
)

// slice is a part of an audit.
type slice struct {
	sw     Switch
	turn   uint32
	filter openflow.FlowFilter
	first  bool // of its audit: it begins with the plan
	last   bool // of its audit: it brings groups and meters as well

	// The results, once it has been read.
	plan   []openflow.FlowFilter
	flows  []openflow.PackedFlow
	others int // flows of other programs that cannot be parsed and are kept
	groups []openflow.Group
	meters []openflow.Meter
	took   time.Duration
	err    error
}

// planAudit returns the slices of an audit. It reads the numbers of flows from the switch, so that a table that
// another program uses is included.
func planAudit(ctx context.Context, sw Switch) ([]openflow.FlowFilter, error) {
	tables, err := sw.Tables(ctx)
	if err != nil {
		return nil, err
	}
	total := uint32(0)
	for _, t := range tables {
		total += t.Active
	}
	if total <= sliceSize {
		return []openflow.FlowFilter{{}}, nil
	}
	var list []openflow.FlowFilter
	for _, t := range tables {
		if t.Active == 0 {
			continue // flows that the book expects here will count as lost
		}
		parts := uint64(1) << bits.Len32((t.Active-1)/sliceSize)
		for rest := range parts {
			list = append(list, openflow.FlowFilter{OneTable: true, Table: t.Table, Cookie: rest, CookieMask: parts - 1})
		}
	}
	return list, nil
}

// fetch reads a slice from the switch.
func (s *slice) fetch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	began := time.Now()
	defer func() { s.took = time.Since(began) }()
	if s.first {
		if s.plan, s.err = planAudit(ctx, s.sw); s.err != nil || len(s.plan) == 0 {
			return
		}
		s.filter, s.plan, s.last = s.plan[0], s.plan[1:], len(s.plan) == 1
	}
	s.err = s.sw.EachFlow(ctx, s.filter, func(f openflow.FlowEntry) error {
		switch verdict(f) {
		case keep, wasLearned:
			s.flows = append(s.flows, openflow.PackedFlow{Key: string(f.AppendKey(nil)), Effect: string(f.AppendEffect(nil))})
		case leaveUnknown:
			s.others++
		}
		return nil
	})
	if s.last && s.err == nil {
		s.groups, s.meters, s.err = fetchOthers(ctx, s.sw)
	}
}

func fetchOthers(ctx context.Context, sw Switch) (groups []openflow.Group, meters []openflow.Meter, err error) {
	if groups, err = sw.Groups(ctx); err != nil {
		return nil, nil, err
	}
	meters, err = sw.Meters(ctx)
	return groups, meters, err
}

// Verdicts on a flow found in the switch.
const (
	keep         = iota // enter it into the book: it is the driver's, or has to be removed
	leave               // it will expire by itself, as an operator's experiment should
	wasLearned          // from a flow of the driver's: leave it, as long as that is wanted
	leaveUnknown        // of another program, and cannot be parsed
)

// verdict classifies a flow that was read from the switch. The bridge is ours, so flows of others are removed, but only if they
// can be parsed.
func verdict(f openflow.FlowEntry) int {
	switch {
	case cookie.Ours(f.Cookie):
		return keep
	case cookie.IsLearned(f.Cookie):
		return wasLearned
	case f.IdleTimeout != 0 || f.HardTimeout != 0:
		return leave
	case f.Flow().Raw != nil:
		return leaveUnknown
	}
	return keep
}

// load reads all that is in the switch into books without state of the switch. It returns the number of flows
// that are the driver's to keep or remove, and of those that are kept because they cannot be parsed.
func (l *books) load(ctx context.Context, sw Switch) (ours, others int, err error) {
	turn := l.nextTurn()
	var key, effect []byte
	read := func(f openflow.FlowEntry) error {
		switch verdict(f) {
		case keep:
			key, effect = f.AppendKey(key[:0]), f.AppendEffect(effect[:0])
			p := l.flows.places[string(key)]
			if p == nil {
				p = l.flows.place(string(key))
			}
			l.flows.found(p, effectText(p, effect))
			p.checked = turn
			ours++
		case leaveUnknown:
			others++
		}
		return nil
	}
	tables, err := sw.Tables(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, t := range tables {
		if t.Active == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, switchTime+time.Duration(t.Active)*flowTime)
		err := sw.EachFlow(limited, openflow.FlowFilter{OneTable: true, Table: t.Table}, read)
		cancel()
		if err != nil {
			return 0, 0, err
		}
	}
	groups, meters, err := fetchOthers(ctx, sw)
	if err != nil {
		return 0, 0, err
	}
	l.compareOthers(groups, meters, turn)
	return ours, others, nil
}

// effectText converts an effect to a string; it returns the string of an equal claim, if there is one, to save memory.
func effectText(p *place[string], effect []byte) string {
	for _, c := range p.claims {
		if c.thing == string(effect) {
			return c.thing
		}
	}
	return string(effect)
}

// drift is what another program has changed: what was found instead, or the former group or meter if it is gone.
type drift struct {
	flows  []openflow.PackedFlow
	groups []openflow.Group
	meters []openflow.Meter
}

// compare enters a slice and returns what differs from the book.
func (l *books) compare(s *slice) (d drift) {
	for _, f := range s.flows {
		p := l.flows.places[f.Key]
		switch {
		case isLearned(f) && l.learned.isWanted(f), p == nil && l.deleted[f.Key]:
			continue
		case p == nil:
			p = l.flows.place(f.Key)
		case p.checked >= s.turn:
			continue
		}
		p.checked = s.turn
		if p.there && l.flows.same(p.have, f.Effect) {
			continue
		}
		if !isLearned(f) {
			d.flows = append(d.flows, f)
		}
		l.flows.found(p, f.Effect)
	}
	if s.last {
		d.groups, d.meters = l.compareOthers(s.groups, s.meters, s.turn)
	}
	return d
}

// compareOthers enters all groups and meters of the switch and returns those that differ from the book.
func (l *books) compareOthers(groups []openflow.Group, meters []openflow.Meter, turn uint32) ([]openflow.Group, []openflow.Meter) {
	return compareNumbered(l.groups, groups, func(g openflow.Group) (uint32, error) { return g.ID, g.Err }, turn, l.deleted),
		compareNumbered(l.meters, meters, func(m openflow.Meter) (uint32, error) { return m.ID, m.Err }, turn, l.deleted)
}

// compareNumbered enters all groups or meters of the switch, except those that were deleted in this turn. Those
// that cannot be parsed are ignored.
func compareNumbered[T any](b *book[T], things []T, identify func(T) (uint32, error), turn uint32, deleted map[string]bool) (drifted []T) {
	there := map[string]bool{}
	for _, thing := range things {
		id, err := identify(thing)
		name := numbered(id)
		there[name] = true
		p := b.places[name]
		if p == nil && (err != nil || deleted[name]) || p != nil && p.checked >= turn {
			continue
		}
		p = b.place(name)
		if !p.there || !b.same(p.have, thing) {
			drifted = append(drifted, thing)
		}
		b.found(p, thing)
	}
	for name, p := range b.places {
		if p.there && !there[name] && p.checked < turn {
			drifted = append(drifted, p.have)
			b.setAbsent(p)
		}
	}
	return drifted
}

// unseen returns flows that the audit has not seen since a turn. It checks count places from index from of the list, backwards,
// and returns the index to continue at.
func (l *books) unseen(from int, count int, turn uint32) (lost []openflow.PackedFlow, next int) {
	from = min(from, len(l.flows.list))
	for next = from; next > 0 && from-next < count; next-- {
		p := l.flows.list[next-1]
		if p.there && p.checked < turn {
			lost = append(lost, openflow.PackedFlow{Key: p.name, Effect: p.have})
			l.flows.setAbsent(p)
		}
	}
	return lost, next
}
