package mirror

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// watched is the prefix of the feeds of these tests.
const watched = "/contiv.io/state/"

func newFeed(t *testing.T, db *objdb.DB) *Feed {
	t.Helper()
	f := NewFeed(db, watched)
	testetcd.Run(t, func(ctx context.Context) { _ = f.Run(ctx) })
	testkit.Eventually(t, 20*time.Second, "the feed begins", func() bool { _, begun := f.Revision(); return begun })
	return f
}

// told returns the changes after a revision up to another, as text.
func told(t *testing.T, f *Feed, after, upTo int64) string {
	t.Helper()
	var texts []string
	deadline := time.After(time.Minute)
	for after < upTo {
		changes, rev, more, err := f.After(after)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			texts = append(texts, fmt.Sprintf("%s:%s>%s", map[bool]string{true: "+"}[c.Created]+c.Key[len(watched):], c.Prev, c.Value))
		}
		if after = rev; len(changes) > 0 {
			continue
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("told %v up to %d, not to %d", texts, after, upTo)
		}
	}
	return strings.Join(texts, " ")
}

func TestAFeedTellsEveryChangeAfterARevisionInOrder(t *testing.T) {
	db := testdb.New(t)
	before := testdb.Put(t, db, watched+"a", "1") // the past is known too
	testdb.Put(t, db, watched+"a", "2")
	f := newFeed(t, db)
	testdb.Put(t, db, "/elsewhere", "x")
	testdb.Put(t, db, watched+"b", "1")
	last := testdb.Delete(t, db, watched+"a")
	if got, want := told(t, f, before, last), "a:1>2 +b:>1 a:2>"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	rev, _, err := db.Txn(context.Background(), objdb.Txn{Puts: []objdb.KV{{Key: watched + "c"}, {Key: watched + "d"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := told(t, f, last, rev), "+c:> +d:>"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestAFeedSaysWhenItDoesNotReachBackFarEnough(t *testing.T) {
	url := testetcd.New(t)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{url}})
	first := testdb.Put(t, db, watched+"n", "1")
	second := testdb.Put(t, db, watched+"n", "2")
	testdb.Compact(t, db, second)
	f := newFeed(t, db)
	third := testdb.Put(t, db, watched+"n", "3")
	if got, want := told(t, f, second, third), "n:2>3"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if _, _, _, err := f.After(first - 1); !fault.Is(err, fault.Conflict) {
		t.Errorf("before the compaction: %v", err)
	}
}

func TestAFeedThatMissedCompactedRevisionsGoesOnBehindTheGap(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.Open(t, objdb.Config{Endpoints: []string{url}})
	way := testetcd.NewProxy(t, url)
	f := newFeed(t, testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}}))
	first := testdb.Put(t, near, watched+"n", "1")
	if got := told(t, f, first-1, first); got != "+n:>1" {
		t.Fatalf("told %s", got)
	}
	way.Cut()
	for i := range 5 {
		testdb.Put(t, near, watched+"n", fmt.Sprint(i))
	}
	last := testdb.Put(t, near, watched+"n", "end")
	testdb.Compact(t, near, last)
	way.Mend()
	testkit.Eventually(t, 15*time.Second, "readers of before have to start over", func() bool {
		_, _, _, err := f.After(first)
		return fault.Is(err, fault.Conflict)
	})
	next := testdb.Put(t, near, watched+"n", "on")
	if got := told(t, f, last, next); got != "n:end>on" {
		t.Errorf("told %s", got)
	}
}

func TestAFeedKeepsABoundedPast(t *testing.T) {
	for name, c := range map[string]struct {
		value []byte
		most  int // changes kept
	}{
		"many changes":  {nil, feedChanges},
		"large changes": {make([]byte, 1<<20), feedBytes >> 20},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFeed(testdb.At(t, "http://127.0.0.1:1"), watched)
			f.begun = true
			last := int64(3*c.most + 1)
			for rev := int64(1); rev <= last; rev++ {
				e := &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(watched + "k"), Value: c.value, ModRevision: rev}}
				f.add([]*clientv3.Event{e}, rev, false)
			}
			from, count := last-int64(c.most)/2, 0
			for from < last {
				changes, upTo, _, err := f.After(from)
				if err != nil || len(changes) == 0 || len(changes) > pieceChanges || upTo != changes[len(changes)-1].Revision {
					t.Fatalf("%d changes after %d up to %d, %v", len(changes), from, upTo, err)
				}
				from, count = upTo, count+len(changes)
			}
			if count != c.most/2 || from != last {
				t.Errorf("%d changes up to %d", count, from)
			}
			if _, _, _, err := f.After(last - int64(c.most) - 1); !fault.Is(err, fault.Conflict) {
				t.Errorf("what was forgotten: %v", err)
			}
			if len(f.changes) > c.most || f.bytes > feedBytes {
				t.Errorf("%d changes of %d bytes are kept", len(f.changes), f.bytes)
			}
		})
	}
}

// All changes of one revision are returned together, however many there are.
func TestAPieceOfAFeedHasWholeRevisions(t *testing.T) {
	f := NewFeed(testdb.At(t, "http://127.0.0.1:1"), watched)
	const each = pieceChanges*2/3 + 1
	write := func(rev int64, changes, size int) {
		var events []*clientv3.Event
		for range changes {
			events = append(events, &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(watched + "k"), Value: make([]byte, size), ModRevision: rev}})
		}
		f.add(events, rev, false)
	}
	write(2, each, 0)
	write(3, each, 0)
	write(4, 3*pieceChanges, 0)
	write(5, 1, 2*pieceBytes)
	write(6, 1, pieceBytes/2)
	write(7, 1, pieceBytes/4)
	f.add(nil, 9, true)
	var got []string
	for rev := int64(1); rev < 9; {
		changes, upTo, _, err := f.After(rev)
		if err != nil || upTo <= rev {
			t.Fatalf("after %d: up to %d, %v", rev, upTo, err)
		}
		got, rev = append(got, fmt.Sprintf("%d up to %d", len(changes), upTo)), upTo
	}
	if got, want := strings.Join(got, ", "), fmt.Sprintf("%d up to 2, %d up to 3, %d up to 4, 1 up to 5, 2 up to 9", each, each, 3*pieceChanges); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// A store that is asked to split its watch responses measures a response again for each added event: minutes for
// these, with the race detector.
func TestAFeedHasReadALongPastSoon(t *testing.T) {
	db := testdb.New(t)
	const revisions, keys = 3, 4000 // as after large apply requests
	var puts []objdb.KV
	for k := range keys {
		puts = append(puts, objdb.KV{Key: fmt.Sprintf("%s%d", watched, k), Value: make([]byte, 80)})
	}
	var last int64
	for range revisions {
		var err error
		if last, _, err = db.Txn(t.Context(), objdb.Txn{Puts: puts}); err != nil {
			t.Fatal(err)
		}
	}
	f := newFeed(t, db)
	testkit.Eventually(t, time.Minute, "the feed has come to the present", func() bool {
		reached, _ := f.Revision()
		return reached >= last
	})
}
