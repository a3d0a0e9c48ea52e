package programmer

import (
	"cmp"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// defaultChunk is how many flows are written in one bundle. The switch is busy with a bundle of this size for a
// fraction of a second; larger ones cost more per flow and delay all other work.
const defaultChunk = 20_000

// books are the wanted and the known state of a switch, and the order in which the differences are written.
//
// What fits into one chunk is one bundle, and no packet sees a part of it. The rest is written in an order in
// which rules apply to packets correctly at any moment:
//
//   - Additions go from the last table to the first, in a table from the highest priority to the lowest. A
//     packet reaches a new flow only through earlier tables, and in an incomplete table it matches either the
//     flow that will finally decide, or none, as the miss comes last, and is dropped. Table 0, which admits
//     packets, is the very last: until then the flows of another layout, if there are any, are used.
//   - Deletions follow, in the opposite order: from the first table to the last, in a table from the lowest
//     priority to the highest. If the old flows and the new ones deny a packet, one of them has a higher
//     priority than everything else that can match it, at every step; the same if both allow it.
//   - The epoch of the tiers is the last of all, whatever is pending: connections in it are evaluated by all
//     that came with it (epoch.go).
//   - Meters and groups are added before all flows and deleted after them, as flows refer to them.
//
// When the pipeline's own flows are in the switch, objects that concern all endpoints (networks and rules) come
// before endpoints, and objects for which a Sync waits, or that were changed since, come before the rest.
// Endpoints that are missing meanwhile cannot be reached, or are reached as a bridge reaches unknown ones; what
// they send from other nodes is dropped.
type books struct {
	whole     int // flows in a bundle
	chunk     int // the same, or fewer while a change without an answer is searched for (silence.go)
	flows     *book[string]
	groups    *book[openflow.Group]
	meters    *book[openflow.Meter]
	plan      []*place[string] // flows to be written, in this order
	held      []func()         // functions that bring back held places
	flushes                    // of connections
	learned   learned
	epoch     epoch
	overflows overflows
	conflicts conflicts

	turn    uint32          // of the audit, see audit.go
	deleted map[string]bool // flows deleted in this turn
}

func newBooks(chunk int) *books {
	return &books{
		whole: chunk, chunk: chunk, conflicts: conflicts{}, learned: newLearned(), deleted: map[string]bool{},
		flows: newBook(flowKind()), groups: newBook(groupKind()), meters: newBook(meterKind()), flushes: newFlushes(),
		overflows: newOverflows(),
	}
}

// set replaces what an object wants.
func (l *books) set(owner pipeline.Key, p packed) []conflict {
	if owner.Kind == pipeline.KindEpoch {
		return l.setEpoch(owner, p)
	}
	before := l.flows.owned[owner]
	found := l.flows.set(owner, p.flows)
	l.conflicts.note(owner, found)
	l.overflows.mark(before)
	l.overflows.mark(l.flows.owned[owner])
	l.groups.set(owner, p.groups)
	l.flushes.want(owner, p.groups)
	l.meters.set(owner, p.meters)
	l.learned.want(owner, p.learns)
	return found
}

// settled reports whether all that an object wants is in the switch.
func (l *books) settled(owner pipeline.Key) bool {
	return l.flows.settled(owner) && l.groups.settled(owner) && l.meters.settled(owner)
}

// nextTurn begins a turn: from now on, what is written is newer than what an audit requests now.
func (l *books) nextTurn() uint32 {
	l.turn++
	l.deleted = map[string]bool{}
	return l.turn
}

// pending counts the places where the switch has to change.
func (l *books) pending() int { return l.flows.pending + l.groups.pending + l.meters.pending }

// forget drops all state of the switch.
func (l *books) forget() {
	l.noteFormer()
	l.flows.forget()
	l.groups.forget()
	l.meters.forget()
	l.forgetFlushes()
	l.plan, l.held, l.deleted = nil, nil, map[string]bool{}
}

// release brings back the places that were held because they had been refused.
func (l *books) release() {
	held := l.held
	l.held = nil
	for _, back := range held {
		back()
	}
}

// step is a difference to write.
type step struct {
	owner   pipeline.Key // to which a refusal is attributed, see answerable
	message openflow.Message
	judges  bool // as in problem
	difference
}

// difference records the result of a step.
type difference interface {
	done() // the switch has applied it
	hold() // it is held
}

// batch is the next to be written: meters one by one, the rest in one bundle.
type batch struct {
	meters, bundle, oldMeters []step
	blocked                   []pipeline.Key // objects with a step that judges and was held
}

// next returns the next batch. Urgent objects come first where that is safe; blocked ones are held.
func (l *books) next(urgent []pipeline.Key, blocked func(pipeline.Key) bool) batch {
	var b batch
	var oldGroups []step
	flows := l.nextFlows(urgent, blocked) // first: the rest of the plan may refer to groups and meters
	b.meters, b.oldMeters = split(l, l.meters, blocked, meterMessage)
	l.keepBuckets()
	b.bundle, oldGroups = split(l, l.groups, blocked, groupMessage)
	for _, p := range flows {
		if l.adoptRewritten(p) {
			continue
		}
		s, ok := stepOf(l, l.flows, p, blocked, flowMessage)
		s.judges = affectsJudgement(p)
		switch {
		case ok:
			b.bundle = append(b.bundle, s)
		case s.judges && s.owner != (pipeline.Key{}):
			b.blocked = append(b.blocked, s.owner)
		}
	}
	b.bundle = append(b.bundle, oldGroups...)
	return b
}

// split makes the steps of meters or groups. Those to be deleted wait until no flow refers to them any more.
func split[T any](l *books, b *book[T], blocked func(pipeline.Key) bool, message messageOf[T]) (wanted, old []step) {
	for _, p := range b.takeDirty() {
		if len(p.claims) == 0 && len(l.plan) > 0 {
			b.touch(p)
			continue
		}
		s, ok := stepOf(l, b, p, blocked, message)
		switch {
		case !ok:
		case len(p.claims) == 0:
			old = append(old, s)
		default:
			wanted = append(wanted, s)
		}
	}
	return wanted, old
}

// nextFlows returns the next flows to check, in order. Blocked ones are not urgent.
func (l *books) nextFlows(urgent []pipeline.Key, blocked func(pipeline.Key) bool) []*place[string] {
	if len(l.plan) == 0 {
		list := l.order(l.flows.takeDirty())
		if len(list) <= l.chunk {
			return list
		}
		l.plan = list
	}
	if l.flows.settled(baseKey) && len(l.flows.dirty) <= l.chunk {
		list := l.flows.takeDirty()
		for _, key := range urgent {
			for _, p := range l.flows.owned[key] {
				if p.pending && !blocked(p.errorOwner()) {
					list = append(list, p)
				}
			}
		}
		list = slices.DeleteFunc(list, func(p *place[string]) bool {
			if isEpoch(p) {
				l.plan = append(l.plan, p)
			}
			return isEpoch(p)
		})
		if len(list) > 0 {
			return slices.Compact(l.order(list))
		}
	} else if len(l.flows.dirty) > l.chunk {
		l.plan = l.order(append(l.plan, l.flows.takeDirty()...))
	}
	n := min(l.chunk, len(l.plan))
	first := l.plan[:n]
	l.plan = l.plan[n:]
	return first
}

// adoptRewritten handles a flow without a claim that equals a claimed one, except that the switch writes its match in another
// form. It enters the flow at the claimed place and returns true.
func (l *books) adoptRewritten(p *place[string]) bool {
	if len(p.claims) > 0 || !p.there {
		return false
	}
	flow := openflow.PackedFlow{Key: p.name, Effect: p.have}.Flow()
	other := l.flows.places[flow.MatchKey()]
	if other == nil || other == p {
		return false
	}
	l.flows.found(other, p.have)
	l.flows.setAbsent(p)
	return true
}

// unfinished reports whether there is something to write, or to hold.
func (l *books) unfinished() bool {
	return len(l.plan)+len(l.flows.dirty)+len(l.groups.dirty)+len(l.meters.dirty) > 0
}

// order sorts flows as described at books.
func (l *books) order(list []*place[string]) []*place[string] {
	based := l.flows.settled(baseKey)
	rank := func(p *place[string]) int {
		switch {
		case len(p.claims) == 0:
			return 2
		case isEpoch(p):
			return 3
		case based && p.claims[0].owner.Kind != pipeline.KindEndpoint:
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b *place[string]) int {
		rankA, rankB := rank(a), rank(b)
		switch {
		case rankA != rankB:
			return cmp.Compare(rankA, rankB)
		case rankA == 2: // the key begins with table and priority
			return cmp.Compare(a.name, b.name)
		}
		return cmp.Compare(b.name, a.name)
	})
	return list
}

// messageOf makes the message that gives a place what it should have. there is whether it has
// something now, wanted whether it should.
type messageOf[T any] func(place string, thing T, there, wanted bool) openflow.Message

func flowMessage(place, effect string, _, wanted bool) openflow.Message {
	m := openflow.PackedFlowMod{Command: openflow.FlowAdd, Flow: openflow.PackedFlow{Key: place, Effect: effect}}
	if !wanted {
		m.Command = openflow.FlowDeleteStrict
	}
	return m
}

func groupMessage(_ string, g openflow.Group, there, wanted bool) openflow.Message {
	switch {
	case !wanted:
		return openflow.GroupMod{Command: openflow.GroupDelete, Group: openflow.Group{ID: g.ID}}
	case there:
		return openflow.GroupMod{Command: openflow.GroupModify, Group: g}
	}
	return openflow.GroupMod{Command: openflow.GroupAdd, Group: g}
}

func meterMessage(_ string, m openflow.Meter, there, wanted bool) openflow.Message {
	switch {
	case !wanted:
		return openflow.MeterMod{Command: openflow.MeterDelete, Meter: openflow.Meter{ID: m.ID}}
	case there:
		return openflow.MeterMod{Command: openflow.MeterModify, Meter: m}
	}
	return openflow.MeterMod{Command: openflow.MeterAdd, Meter: m}
}

// stepOf makes the step of a place, if it needs one and is not blocked. If it is, the step contains the owner only.
func stepOf[T any](l *books, b *book[T], p *place[T], blocked func(pipeline.Key) bool, message messageOf[T]) (step, bool) {
	want, wanted, right := b.compare(p)
	if right {
		b.settle(p)
		return step{}, false
	}
	d := &differenceAt[T]{books: l, book: b, place: p, wanted: wanted, want: want.thing}
	owner := p.errorOwner()
	if blocked(owner) {
		d.hold()
		return step{owner: owner}, false
	}
	thing := want.thing
	if !wanted {
		thing = p.have
	}
	return step{owner: owner, message: message(p.name, thing, p.there, wanted), difference: d}, true
}

// differenceAt is a difference at one place.
type differenceAt[T any] struct {
	books  *books
	book   *book[T]
	place  *place[T]
	wanted bool // something is wanted there: want
	want   T
}

func (d *differenceAt[T]) done() {
	d.place.checked = d.books.turn
	if d.wanted {
		d.book.found(d.place, d.want)
		return
	}
	d.books.deleted[d.place.name] = true
	d.book.setAbsent(d.place)
}

func (d *differenceAt[T]) hold() {
	d.books.held = append(d.books.held, func() { d.book.touch(d.place) })
}
