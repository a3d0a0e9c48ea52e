package programmer

import (
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A switch may give no answer to one change and take others (stall.go). Which object it is about is found as what a switch refuses is,
// by halves, but through a connection each: with each change without an answer the next bundles are half as large, until
// one object is alone. It counts as refused when that has happened twice: a switch that ended meanwhile has answered nothing either.

// silentTimes is how often in a row an object alone has no answer until it counts as refused.
const silentTimes = 2

// silence is the last change without an answer.
type silence struct {
	flows  int          // how many it was made of
	owner  pipeline.Key // whose they all were; zero: of several
	times  int          // with nothing of it taken in between
	judges bool         // as in problem
	err    error
}

// after is what is known when another bundle had no answer.
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

// unless is what is known when a bundle was taken: nothing any more, if that was of the same object.
func (s silence) unless(taken []step) silence {
	if slices.ContainsFunc(taken, func(t step) bool { return t.owner == s.owner }) {
		return silence{}
	}
	return s
}

// searched takes the next step in finding what the switch gives no answer to: it does to others.
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

// larger makes them twice as large: one of them was taken.
func (l *books) larger() { l.chunk = min(l.whole, 2*l.chunk) }

// inTurn are those objects of which somebody waits for the switch to have them that come next: one at a time while it is searched
// for what has no answer.
func (l *books) inTurn(urgent []pipeline.Key) []pipeline.Key {
	if l.chunk < l.whole {
		return urgent[:min(1, len(urgent))]
	}
	return urgent
}
