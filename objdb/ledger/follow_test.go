package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/mirror"
)

// Events that arrive by watch are older than what the ledger has committed in the meantime.
func TestLateEventsDoNotUndoWhatTheLedgerCommitted(t *testing.T) {
	put := func(rev int64, key, value string) mirror.Event {
		return mirror.Event{Key: key, Value: []byte(value), ModRevision: rev}
	}
	gone := func(rev int64, key string) mirror.Event { return mirror.Event{Key: key, ModRevision: rev} }
	for name, x := range map[string]struct {
		events []mirror.Event
		want   string // value of /s/k, "-" when absent
	}{
		"nothing arrives":                     {nil, "own"},
		"own put comes back":                  {[]mirror.Event{put(20, "/s/k", "own")}, "own"},
		"an older put arrives":                {[]mirror.Event{put(19, "/s/k", "older")}, "own"},
		"an older deletion arrives":           {[]mirror.Event{gone(19, "/s/k")}, "own"},
		"a newer put arrives":                 {[]mirror.Event{put(21, "/s/k", "newer")}, "newer"},
		"a newer deletion arrives":            {[]mirror.Event{gone(21, "/s/k")}, "-"},
		"an event from before the listing":    {[]mirror.Event{put(9, "/s/new", "x"), gone(9, "/s/k")}, "own"},
		"deleted and put again by another":    {[]mirror.Event{gone(21, "/s/k"), put(22, "/s/k", "again")}, "again"},
		"deletion of a key that is not there": {[]mirror.Event{gone(22, "/s/none")}, "own"},
	} {
		l, c := caughtUp()
		for _, e := range x.events {
			c.absorb(mirror.Batch{Revision: e.ModRevision, Events: []mirror.Event{e}})
		}
		if got := held(l, "/s/k"); got != x.want {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
		if held(l, "/s/new") != "-" {
			t.Errorf("%s: a key from before the listing came back", name)
		}
	}
}

func TestAKeyTheLedgerDeletedDoesNotComeBackByALateEvent(t *testing.T) {
	l, c := caughtUp()
	c.deleted["/s/d"] = 30
	for _, rev := range []int64{11, 29} {
		c.absorb(mirror.Batch{Revision: rev, Events: []mirror.Event{{Key: "/s/d", Value: []byte("late"), ModRevision: rev}}})
		if got := held(l, "/s/d"); got != "-" {
			t.Fatalf("event of revision %d brought %q back", rev, got)
		}
	}
	c.absorb(mirror.Batch{Revision: 30, Events: []mirror.Event{{Key: "/s/d", ModRevision: 30}}})
	if !cmp.Equal(c.deleted, map[string]int64{}) {
		t.Errorf("still remembered: %v", c.deleted)
	}
	c.absorb(mirror.Batch{Revision: 31, Events: []mirror.Event{{Key: "/s/d", Value: []byte("theirs"), ModRevision: 31}}})
	if got := held(l, "/s/d"); got != "theirs" {
		t.Errorf("put after the deletion gave %q", got)
	}
}

func TestOldDeletionsAreForgottenOnceTheMirrorsHavePassedThem(t *testing.T) {
	_, c := caughtUp()
	m := mirror.New(testdb.At(t, "http://127.0.0.1:1"), "/s/", nil)
	m.Seed(nil, manyDeleted)
	c.mirror, c.newest = m, 10*manyDeleted
	for i := range int64(2 * manyDeleted) {
		c.deleted[string(rune(i+1))] = i + 1
	}
	c.forget()
	if len(c.deleted) != manyDeleted {
		t.Errorf("%d remembered, want %d", len(c.deleted), manyDeleted)
	}
}

// caughtUp returns a ledger and its committer: listed at revision 10, /s/k committed at 20.
func caughtUp() (*Ledger, *committer) {
	l := &Ledger{&shared{owned: prefixes{"/s/"}}}
	l.state.Store(buildTree([]objdb.KV{{Key: "/s/k", Value: []byte("own"), ModRevision: 20}}))
	return l, &committer{shared: l.shared, loaded: 10, horizon: horizon{10, 20}, own: 20, deleted: map[string]int64{}}
}

func held(l *Ledger, key string) string {
	r, ok := l.state.Load().Get(record{key: key})
	if !ok {
		return "-"
	}
	return string(r.value)
}

// A client that follows the store from the revision of a snapshot on would miss for good the writes of other
// clients that precede an own commit and have not arrived yet.
func TestASnapshotIsNotNewerThanWhatHasArrivedOfOthers(t *testing.T) {
	l, c := caughtUp()
	snapshot := func() int64 {
		return (&view{tree: l.state.Load(), owned: l.owned}).Snapshot("/s/")
	}
	c.publish(c.state.Load())
	if got := snapshot(); got != 10 {
		t.Errorf("listed at 10, committed at 20: snapshot %d", got)
	}
	c.absorb(mirror.Batch{Revision: 15, Events: []mirror.Event{{Key: "/s/theirs", Value: []byte("x"), ModRevision: 15}}})
	if got := snapshot(); got != 15 {
		t.Errorf("after the arrival of 15: snapshot %d", got)
	}
	c.absorb(mirror.Batch{Revision: 20, Events: []mirror.Event{{Key: "/s/k", Value: []byte("own"), ModRevision: 20}}})
	if got := snapshot(); got != 20 {
		t.Errorf("after the own commit came back: snapshot %d", got)
	}
}
