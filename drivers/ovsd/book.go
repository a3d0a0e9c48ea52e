package ovsd

import (
	"cmp"
	"maps"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// book is what the switch should have, what it has, and where the two may
// differ. It does no I/O.
//
// A switch holds one flow per table, priority and match: a place. Several
// objects may claim a place; one is in force, the others stay in the book, so
// that taking that one away does not leave a hole. Between rules the pipeline
// decides, so that the outcome does not depend on who came first; otherwise the
// last to come is in force, as with an address that has moved.
type book struct {
	claims map[string][]claim        // by place, in the order they came
	places map[pipeline.Key][]string // by owner
	known  map[string]openflow.Flow  // by place: what is in the switch
	dirty  map[string]struct{}       // places where claims and known may differ
}

type claim struct {
	owner pipeline.Key
	flow  openflow.Flow
}

// conflict is a place that was claimed by two objects for different flows.
type conflict struct {
	newcomer, present pipeline.Key
	flow              openflow.Flow // of the newcomer
}

func newBook() *book {
	return &book{
		claims: map[string][]claim{},
		places: map[pipeline.Key][]string{},
		known:  map[string]openflow.Flow{},
		dirty:  map[string]struct{}{},
	}
}

// set replaces the flows of an object; none: the object is gone.
func (b *book) set(owner pipeline.Key, flows []openflow.Flow) []conflict {
	wanted := make(map[string]openflow.Flow, len(flows))
	for _, flow := range flows {
		wanted[flow.MatchKey()] = flow
	}
	for _, place := range b.places[owner] {
		if _, ok := wanted[place]; !ok {
			b.withdraw(place, owner)
		}
	}
	var conflicts []conflict
	for place, flow := range wanted {
		if present, ok := b.claim(place, claim{owner, flow}); ok {
			conflicts = append(conflicts, conflict{newcomer: owner, present: present, flow: flow})
		}
	}
	if len(wanted) == 0 {
		delete(b.places, owner)
	} else {
		b.places[owner] = slices.Collect(maps.Keys(wanted))
	}
	return conflicts
}

// claim enters a flow. An owner that has claimed the place before keeps its
// turn: computing an object anew must not change who is in force.
func (b *book) claim(place string, c claim) (present pipeline.Key, conflicts bool) {
	b.dirty[place] = struct{}{}
	list := b.claims[place]
	for i := range list {
		if list[i].owner == c.owner {
			list[i] = c
			return pipeline.Key{}, false
		}
	}
	before, occupied := b.inForce(place)
	b.claims[place] = append(list, c)
	return before.owner, occupied && !sameDeed(before.flow, c.flow)
}

// sameDeed compares flows of one place but for their cookies.
func sameDeed(a, b openflow.Flow) bool {
	a.Cookie = b.Cookie
	return a.SameEffect(b)
}

func (b *book) withdraw(place string, owner pipeline.Key) {
	b.dirty[place] = struct{}{}
	list := slices.DeleteFunc(b.claims[place], func(c claim) bool { return c.owner == owner })
	if len(list) == 0 {
		delete(b.claims, place)
		return
	}
	b.claims[place] = list
}

// inForce returns the claim that the switch should have.
func (b *book) inForce(place string) (claim, bool) {
	list := b.claims[place]
	if len(list) == 0 {
		return claim{}, false
	}
	best := list[len(list)-1]
	if best.owner.Kind == pipeline.KindRule {
		for _, c := range list {
			if pipeline.Preferred(c.flow, best.flow) {
				best = c
			}
		}
	}
	return best, true
}

// seen replaces what is known of the switch and returns how many places differ
// from what was known before.
func (b *book) seen(flows map[string]openflow.Flow) (drifted []openflow.Flow) {
	for place, flow := range b.known {
		if found, ok := flows[place]; !ok || !found.SameEffect(flow) {
			drifted = append(drifted, flow)
		}
		b.dirty[place] = struct{}{}
	}
	for place, flow := range flows {
		if _, ok := b.known[place]; !ok {
			drifted = append(drifted, flow)
		}
		b.dirty[place] = struct{}{}
	}
	for place := range b.claims {
		b.dirty[place] = struct{}{}
	}
	b.known = flows
	return drifted
}

// step is a difference to write: a flow to add, replacing what is in its
// place, or a place to clear.
type step struct {
	owner  pipeline.Key // zero when clearing: nobody claims the place
	place  string
	flow   openflow.Flow
	remove bool
}

func (s step) message() openflow.Message {
	if s.remove {
		return openflow.FlowMod{Command: openflow.FlowDeleteStrict, Flow: s.flow}
	}
	return openflow.FlowMod{Command: openflow.FlowAdd, Flow: s.flow}
}

// steps returns the differences, in the order of the tables from the last to
// the first: if the switch ever applies them one by one, no packet is sent to
// a table that does not have its flows yet. Places found equal are not dirty
// any more.
func (b *book) steps() []step {
	var list []step
	for place := range b.dirty {
		want, wanted := b.inForce(place)
		have, there := b.known[place]
		switch {
		case wanted && (!there || !have.SameEffect(want.flow)):
			list = append(list, step{owner: want.owner, place: place, flow: want.flow})
		case !wanted && there:
			list = append(list, step{place: place, flow: have, remove: true})
		default:
			delete(b.dirty, place)
		}
	}
	slices.SortFunc(list, func(a, b step) int {
		return cmp.Or(cmp.Compare(b.flow.Table, a.flow.Table), cmp.Compare(a.place, b.place))
	})
	return list
}

// done notes steps that the switch has taken.
func (b *book) done(steps []step) {
	for _, s := range steps {
		if s.remove {
			delete(b.known, s.place)
		} else {
			b.known[s.place] = s.flow
		}
		delete(b.dirty, s.place)
	}
}

// wanted is the number of flows the switch should have.
func (b *book) wanted() int { return len(b.claims) }

// clean tells whether the switch has what it should have.
func (b *book) clean() bool { return len(b.dirty) == 0 }
