package history

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is one violation, with the check that found it.
type Finding struct{ Check, Text string }

// derivedEvery is how many revisions pass between two full derivations. Uniqueness is checked at each revision.
const derivedEvery = 10

// Replay replays the history of the store, revision by revision, and checks every state. It also returns the last
// one.
func Replay(e *Evidence) (*World, []Finding) {
	r := replay{world: newWorld(), holding: holding{evidence: e, held: Held{}}, seen: map[Finding]bool{}}
	changes := e.log.Changes
	for turn := 0; len(changes) > 0; turn++ {
		revision := e.log.settled(changes[0].Revision)
		n := slices.IndexFunc(changes, func(c Change) bool { return e.log.settled(c.Revision) != revision })
		if n < 0 {
			n = len(changes)
		}
		r.advance(revision, changes[:n])
		changes = changes[n:]
		r.check(revision, turn%derivedEvery == 0 || len(changes) == 0)
	}
	for _, text := range r.holding.found {
		r.found = append(r.found, Finding{"addresses", text})
	}
	return r.world, r.found
}

type replay struct {
	world   *World
	holding holding
	seen    map[Finding]bool
	found   []Finding
}

// advance applies the changes that count at one revision.
func (r *replay) advance(revision int64, changes []Change) {
	touched := map[string]bool{}
	for _, c := range changes {
		touch(c, touched)
		r.world.Apply(c)
	}
	r.holding.update(r.world, touched, revision)
}

// touch records the network whose held addresses a change may affect.
func touch(c Change, touched map[string]bool) {
	if id, ok := strings.CutPrefix(c.Key, networkPrefix); ok {
		touched[id] = true
	}
	if path, ok := strings.CutPrefix(c.Key, heldPrefix); ok {
		id, _, _ := strings.Cut(path, "/")
		touched[id] = true
	}
}

// check checks the state of a revision. A violation that persists is reported once.
func (r *replay) check(revision int64, full bool) {
	r.note(revision, "choices", Choices(r.world))
	r.note(revision, "references", References(r.world))
	if full {
		wanted, err := Derive(r.world, r.holding.held)
		if err != nil {
			r.note(revision, "derivation", []string{err.Error()})
		}
		r.note(revision, "derivation", Compare(r.world, wanted))
		r.note(revision, "links", Links(r.world, r.world.stored(), false))
	}
}

func (r *replay) note(revision int64, check string, texts []string) {
	for _, text := range texts {
		f := Finding{check, text}
		if r.seen[f] {
			continue
		}
		r.seen[f] = true
		r.found = append(r.found, Finding{check, fmt.Sprintf("revision %d: %s", revision, text)})
	}
}

// Verify runs all checks on the two records, and returns the last state of the store.
func Verify(log *Log, calls []*Call) (*World, []Finding) {
	e := NewEvidence(log, calls)
	world, found := Replay(e)
	note := func(check string, texts []string) {
		for _, text := range texts {
			found = append(found, Finding{check, text})
		}
	}
	fates, unexplained := Explain(e)
	note("explained", unexplained)
	note("applies", Whole(e, fates))
	note("revisions", Tags(e))
	note("refusals", Justified(e))
	note("existence", Existence(calls))
	note("addresses", Addresses(e, fates))
	return world, found
}
