package programmer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A connection that is admitted in an epoch is not evaluated again, so all other flows are written before the
// epoch: also those that were pending when the epoch changed, and deletions.
func TestTheEpochIsWrittenLast(t *testing.T) {
	l := newBooks(2)
	flow := func(priority int) pipeline.Wants {
		return pipeline.Wants{Flows: []openflow.Flow{{Table: 5, Priority: uint16(priority)}}}
	}
	written := func(b batch) (list []string) {
		for _, s := range b.bundle {
			m := s.message.(openflow.PackedFlowMod)
			list = append(list, fmt.Sprint(m.Flow.Priority(), m.Command == openflow.FlowDeleteStrict))
			s.done()
		}
		return list
	}
	epoch := pipeline.Epoch{}.Key()
	for i := range 3 {
		mustSet(t, l, ruleKey(fmt.Sprint(i)), flow(10+i))
	}
	for l.unfinished() {
		written(l.next(nil, never))
	}

	for i := range 3 {
		mustSet(t, l, ruleKey(fmt.Sprint(i)), pipeline.Wants{})
		mustSet(t, l, ruleKey(fmt.Sprint("new", i)), flow(20+i))
	}
	mustSet(t, l, epoch, flow(90))
	got := written(l.next(nil, never))
	mustSet(t, l, epoch, flow(91)) // again, and with another endpoint, while the others are pending
	mustSet(t, l, endpointKey(1), flow(30))
	for l.unfinished() {
		got = append(got, written(l.next([]pipeline.Key{epoch}, never))...)
	}
	if len(got) == 0 || got[len(got)-1] != "91 false" || !slices.Contains(got, "12 true") || slices.Contains(got, "90 false") {
		t.Errorf("order %v", got)
	}
	if before := slices.Index(got, "30 false"); before != 2 {
		t.Errorf("the endpoint does not overtake: %v", got)
	}
}

// With a group or a meter, a switch deletes the flows that use it: so these are deleted last, once no flow of the
// plan uses them.
func TestGroupsAndMetersGoWithTheLastFlowsOfAPlan(t *testing.T) {
	l := newBooks(2)
	set := func(w pipeline.Wants, meter uint32, actions ...openflow.Action) {
		for i := range 3 {
			w.Flows = []openflow.Flow{{Table: 5, Priority: uint16(10 + i), Meter: meter, Actions: actions}}
			mustSet(t, l, ruleKey(fmt.Sprint(i)), w)
		}
	}
	write := func() (gone int) {
		for l.unfinished() {
			b := l.next(nil, never)
			for _, s := range slices.Concat(b.meters, b.bundle, b.oldMeters) {
				group, _ := s.message.(openflow.GroupMod)
				meter, _ := s.message.(openflow.MeterMod)
				if group.Command == openflow.GroupDelete && group.Group.ID == 7 || meter.Command == openflow.MeterDelete && meter.Meter.ID == 8 {
					gone++
					if len(l.plan) > 0 {
						t.Errorf("%T while %d flows are to be written", s.message, len(l.plan))
					}
				}
				s.done()
			}
		}
		return gone
	}
	set(pipeline.Wants{Groups: []openflow.Group{{ID: 7, Type: openflow.GroupSelect}}, Meters: []openflow.Meter{{ID: 8}}}, 8, openflow.OutputGroup{ID: 7})
	write()
	set(pipeline.Wants{}, 0)
	if gone := write(); gone != 2 || l.pending() != 0 {
		t.Errorf("%d are gone, %d pending", gone, l.pending())
	}
}

// The cost of uniting grows with the number of claims, so it is not done for each of them.
func TestManyClausesOfAFlowAreUnitedOnce(t *testing.T) {
	const owners = 100
	l, united := newBooks(defaultChunk), 0
	choose := l.flows.choose
	l.flows.choose = func(place string, claims []claim[string]) claim[string] {
		united++
		return choose(place, claims)
	}
	change := func(what string, wants func(id uint32) pipeline.Wants) {
		united = 0
		for id := range uint32(owners) {
			mustSet(t, l, ruleKey(fmt.Sprint(id)), wants(id))
		}
		apply(map[string]openflow.PackedFlow{}, l.next(nil, never))
		if united > 5 { // once when planned, and once when written
			t.Errorf("%s: clauses are united %d times", what, united)
		}
	}
	change("they come", func(id uint32) pipeline.Wants {
		return pipeline.Wants{Flows: []openflow.Flow{{Table: 5, Priority: 7,
			Actions: []openflow.Action{openflow.Conjunction{ID: id + 1, Clause: 1, Clauses: 2}}}}}
	})
	change("they go", func(uint32) pipeline.Wants { return pipeline.Wants{} })
	if l.pending() != 0 {
		t.Errorf("%d pending", l.pending())
	}
}
