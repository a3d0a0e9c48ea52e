package programmer

import (
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A switch may not answer one change and accept others (stall.go). The object is found like a refused one, by
// halves, but with a connection for each: after each change without an answer the next bundles are half as
// large, until one object is alone. It counts as refused when that has happened twice: a switch that ended
// meanwhile has not answered either.

// silentTimes is how often in a row an object alone must have no answer to count as refused.
const silentTimes = 2

// silence is the last change without an answer.
type silence struct {
	flows  int          // how many flows it had
	owner  pipeline.Key // the owner of them all; zero: several
	times  int          // without an accepted change of it in between
	judges bool         // as in problem
	err    error
}

// after returns the state after another bundle without an answer.
func (s silence) after(bundle []step, err error) silence {
	next := silence{flows: len(bundle), err: err, judges: slices.ContainsFunc(bundle, func(s step) bool { return s.judges })}
	if len(bundle) > 0 && !slices.ContainsFunc(bundle, func(s step) bool { return s.owner != bundle[0].owner }) {
		next.owner, next.times = bundle[0].owner, 1
	}
	if next.times > 0 && next.owner == s.owner {
		next.times += s.times
	}
	return next
}

// unless returns the state after an accepted bundle: none if that was of the same object.
func (s silence) unless(taken []step) silence {
	if slices.ContainsFunc(taken, func(t step) bool { return t.owner == s.owner }) {
		return silence{}
	}
	return s
}

// searched does the next step of the search for a change without an answer: the switch answers others.
func (p *Programmer) searched(now time.Time) {
	p.books.smaller(p.silence.flows)
	if p.silence.times < silentTimes {
		return
	}
	for owner, fresh := range p.refused.note(refused{p.silence.owner: {p.silence.err, p.silence.judges}}, now) {
		p.problem(owner, fresh.err)
	}
	p.silence = silence{}
	p.settleRefused()
	p.noteAccepted() // what is refused is no debt, see owe
}

// smaller makes the next bundles half as large as one of so many flows that had no answer.
func (l *books) smaller(flows int) { l.chunk = max(1, min(l.chunk, flows)/2) }

// larger makes them twice as large: one of them was accepted.
func (l *books) larger() { l.chunk = min(l.whole, 2*l.chunk) }

// inTurn returns the next of the objects for which a Sync waits: one at a time while a change without
// an answer is searched for.
func (l *books) inTurn(urgent []pipeline.Key) []pipeline.Key {
	if l.chunk < l.whole {
		return urgent[:min(1, len(urgent))]
	}
	return urgent
}
