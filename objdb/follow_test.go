package objdb

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What comes back by watch is older than what the ledger did meanwhile.
func TestLateEventsDoNotUndoWhatTheLedgerCommitted(t *testing.T) {
	put := func(rev int64, key, value string) Event {
		return Event{Key: key, Value: []byte(value), ModRevision: rev}
	}
	gone := func(rev int64, key string) Event { return Event{Key: key, ModRevision: rev} }
	for name, c := range map[string]struct {
		events []Event
		want   string // value of /s/k, "-" when absent
	}{
		"nothing arrives":                     {nil, "own"},
		"own put comes back":                  {[]Event{put(20, "/s/k", "own")}, "own"},
		"an older put arrives":                {[]Event{put(19, "/s/k", "older")}, "own"},
		"an older deletion arrives":           {[]Event{gone(19, "/s/k")}, "own"},
		"a newer put arrives":                 {[]Event{put(21, "/s/k", "newer")}, "newer"},
		"a newer deletion arrives":            {[]Event{gone(21, "/s/k")}, "-"},
		"an event from before the listing":    {[]Event{put(9, "/s/new", "x"), gone(9, "/s/k")}, "own"},
		"deleted and put again by another":    {[]Event{gone(21, "/s/k"), put(22, "/s/k", "again")}, "again"},
		"deletion of a key that is not there": {[]Event{gone(22, "/s/none")}, "own"},
	} {
		l := caughtUp()
		for _, e := range c.events {
			l.absorb(Batch{Revision: e.ModRevision, Events: []Event{e}})
		}
		if got := held(l, "/s/k"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if held(l, "/s/new") != "-" {
			t.Errorf("%s: a key from before the listing came back", name)
		}
	}
}

func TestAKeyTheLedgerDeletedDoesNotComeBackByALateEvent(t *testing.T) {
	l := caughtUp()
	l.deleted["/s/d"] = 30
	for _, rev := range []int64{11, 29} {
		l.absorb(Batch{Revision: rev, Events: []Event{{Key: "/s/d", Value: []byte("late"), ModRevision: rev}}})
		if got := held(l, "/s/d"); got != "-" {
			t.Fatalf("event of revision %d brought %q back", rev, got)
		}
	}
	l.absorb(Batch{Revision: 30, Events: []Event{{Key: "/s/d", ModRevision: 30}}})
	if !cmp.Equal(l.deleted, map[string]int64{}) {
		t.Errorf("still remembered: %v", l.deleted)
	}
	l.absorb(Batch{Revision: 31, Events: []Event{{Key: "/s/d", Value: []byte("theirs"), ModRevision: 31}}})
	if got := held(l, "/s/d"); got != "theirs" {
		t.Errorf("put after the deletion gave %q", got)
	}
}

func TestOldDeletionsAreForgottenOnceTheMirrorsHavePassedThem(t *testing.T) {
	l := caughtUp()
	m := &Mirror{advanced: make(chan struct{})}
	m.reached(manyDeleted)
	l.mirrors, l.revision = []*Mirror{m}, 10*manyDeleted
	for i := range int64(2 * manyDeleted) {
		l.deleted[string(rune(i+1))] = i + 1
	}
	l.forget()
	if len(l.deleted) != manyDeleted {
		t.Errorf("%d remembered, want %d", len(l.deleted), manyDeleted)
	}
}

// caughtUp is a ledger's cache: listed at revision 10, /s/k committed at 20.
func caughtUp() *Ledger {
	l := &Ledger{owned: prefixes{"/s/"}, loaded: 10, revision: 20, deleted: map[string]int64{}}
	l.state.Store(buildTree([]KV{{Key: "/s/k", Value: []byte("own"), ModRevision: 20}}))
	return l
}

func held(l *Ledger, key string) string {
	r, ok := l.state.Load().Get(record{key: key})
	if !ok {
		return "-"
	}
	return string(r.value)
}
