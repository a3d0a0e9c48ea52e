package programmer

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// book is what a switch should have of one kind of item (flows, groups or meters), what it has, and where the
// two may differ. It does no I/O.
//
// A switch holds one item per place: of flows, a table, priority and match; of groups and meters, a number. Several
// objects may claim a place. The item in force is then chosen or united from all claims, so that removing one leaves
// no gap.
type book[T any] struct {
	kind[T]

	places  map[string]*place[T]
	list    []*place[T] // the same, in no order
	owned   map[pipeline.Key][]*place[T]
	wanted  int         // places with a claim
	pending int         // places where the switch may have to change
	dirty   []*place[T] // those of them that are in no plan and not held, and some that are already right
}

// kind has the functions that the book needs for its items.
type kind[T any] struct {
	same   func(a, b T) bool                              // the same to the switch
	alike  func(a, b T) bool                              // the same to packets
	unites func(thing T) bool                             // nil: none; items for which it is true are united, so no two conflict
	choose func(place string, claims []claim[T]) claim[T] // one of two or more claims, in the order in which they were added
}

// place is what one place of the switch should have and has.
type place[T any] struct {
	name    string
	claims  []claim[T] // in the order in which they were added
	there   bool       // the switch has something here: have
	have    T
	pending bool
	queued  bool   // it is in the book's dirty
	index   int    // in the book's list
	checked uint32 // the last turn in which it was written or seen
}

type claim[T any] struct {
	owner pipeline.Key
	thing T
}

// entry is a thing that an object wants at a place.
type entry[T any] struct {
	place string
	thing T
}

// conflict is a place that was claimed by two objects for different things.
type conflict struct {
	newcomer, present pipeline.Key
	place             string
}

func newBook[T any](k kind[T]) *book[T] {
	return &book[T]{kind: k, places: map[string]*place[T]{}, owned: map[pipeline.Key][]*place[T]{}}
}

// set replaces what an object wants; nothing: the object is removed.
func (b *book[T]) set(owner pipeline.Key, wanted []entry[T]) []conflict {
	if before := b.owned[owner]; len(before) > 0 {
		still := make(map[string]bool, len(wanted))
		for _, w := range wanted {
			still[w.place] = true
		}
		for _, p := range before {
			if !still[p.name] {
				b.withdraw(p, owner)
			}
		}
		delete(b.owned, owner)
	}
	if len(wanted) == 0 {
		return nil
	}
	owned := make([]*place[T], 0, len(wanted))
	var conflicts []conflict
	for _, w := range wanted {
		p := b.place(w.place)
		if present, ok := b.claim(p, claim[T]{owner, w.thing}); ok {
			conflicts = append(conflicts, conflict{newcomer: owner, present: present, place: w.place})
		}
		owned = append(owned, p)
	}
	b.owned[owner] = owned
	return conflicts
}

func (b *book[T]) place(name string) *place[T] {
	p := b.places[name]
	if p == nil {
		p = &place[T]{name: name, index: len(b.list)}
		b.places[name] = p
		b.list = append(b.list, p)
	}
	return p
}

// claim enters a claim. An owner that has claimed the place before keeps its position: computing an object
// again must not change what is in force.
func (b *book[T]) claim(p *place[T], c claim[T]) (present pipeline.Key, conflicts bool) {
	for i := range p.claims {
		if p.claims[i].owner == c.owner {
			p.claims[i] = c
			b.claimed(p)
			return pipeline.Key{}, false
		}
	}
	if last := len(p.claims) - 1; last < 0 {
		b.wanted++
	} else if b.unites == nil || !b.unites(p.claims[last].thing) || !b.unites(c.thing) {
		before, _ := b.inForce(p)
		present, conflicts = before.owner, !b.alike(before.thing, c.thing)
	}
	p.claims = append(p.claims, c)
	b.claimed(p)
	return present, conflicts
}

// withdraw removes an owner's claim; without one, because an object wants a place twice, it changes nothing.
func (b *book[T]) withdraw(p *place[T], owner pipeline.Key) {
	before := len(p.claims)
	p.claims = slices.DeleteFunc(p.claims, func(c claim[T]) bool { return c.owner == owner })
	if len(p.claims) == 0 && before > 0 {
		p.claims = nil
		b.wanted--
	}
	b.claimed(p)
}

// claimed checks a place whose claims have changed. Claims of many owners are united only when the place is
// planned: they often change together, and uniting them costs time for each.
func (b *book[T]) claimed(p *place[T]) {
	if len(p.claims) > 1 {
		b.mark(p)
	} else {
		b.touch(p)
	}
}

// inForce returns the claim that the switch should have at a place.
func (b *book[T]) inForce(p *place[T]) (claim[T], bool) {
	switch len(p.claims) {
	case 0:
		return claim[T]{}, false
	case 1:
		return p.claims[0], true
	}
	return b.choose(p.name, p.claims), true
}

// touch checks whether the switch has to change at a place.
func (b *book[T]) touch(p *place[T]) {
	if _, _, right := b.compare(p); right {
		b.settle(p)
	} else {
		b.mark(p)
	}
}

// mark records that a place may differ from the switch.
func (b *book[T]) mark(p *place[T]) {
	if !p.pending {
		p.pending = true
		b.pending++
	}
	if !p.queued {
		p.queued = true
		b.dirty = append(b.dirty, p)
	}
}

// compare returns what the switch should have at a place, and whether it has that.
func (b *book[T]) compare(p *place[T]) (want claim[T], wanted, right bool) {
	want, wanted = b.inForce(p)
	return want, wanted, wanted == p.there && (!wanted || b.same(p.have, want.thing))
}

// settle records that the switch has at a place what it should.
func (b *book[T]) settle(p *place[T]) {
	if p.pending {
		p.pending = false
		b.pending--
	}
	if len(p.claims) == 0 && !p.there && b.places[p.name] == p {
		delete(b.places, p.name)
		last := b.list[len(b.list)-1]
		b.list[p.index], last.index = last, p.index
		b.list = b.list[:len(b.list)-1]
	}
}

// found records what the switch has at a place.
func (b *book[T]) found(p *place[T], have T) {
	p.there, p.have = true, have
	// Equal items are stored once.
	if want, ok := b.inForce(p); ok && b.same(have, want.thing) {
		p.have = want.thing
	}
	b.touch(p)
}

// setAbsent records that the switch has nothing at a place.
func (b *book[T]) setAbsent(p *place[T]) {
	var nothing T
	p.there, p.have = false, nothing
	b.touch(p)
}

// forget drops all state of the switch: it is another one, or has been restarted.
func (b *book[T]) forget() {
	for _, p := range slices.Clone(b.list) {
		b.setAbsent(p)
	}
}

// settled reports whether all that an object wants is in the switch.
func (b *book[T]) settled(owner pipeline.Key) bool {
	return !slices.ContainsFunc(b.owned[owner], func(p *place[T]) bool { return p.pending })
}

// takeDirty empties the list of places to check; they stay pending.
func (b *book[T]) takeDirty() []*place[T] {
	list := slices.DeleteFunc(b.dirty, func(p *place[T]) bool {
		p.queued = false
		return !p.pending
	})
	b.dirty = nil
	return list
}
