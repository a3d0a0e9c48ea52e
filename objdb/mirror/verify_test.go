package mirror

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// forgetful is a watcher that drops the events of one revision. It counts the watches that were started.
type forgetful struct {
	clientv3.Watcher
	leaveOut, watches atomic.Int64
}

// forgetfully makes a store's watches drop events.
func forgetfully(t *testing.T, db *objdb.DB) *forgetful {
	t.Helper()
	client, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{Watcher: client.Watcher}
	client.Watcher = f
	return f
}

func (f *forgetful) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	f.watches.Add(1)
	told := make(chan clientv3.WatchResponse)
	go func() { // ends with ctx, which ends the other channel, too
		defer close(told)
		for resp := range f.Watcher.Watch(ctx, key, opts...) {
			all := len(resp.Events)
			resp.Events = slices.DeleteFunc(resp.Events, func(ev *clientv3.Event) bool { return ev.Kv.ModRevision == f.leaveOut.Load() })
			if all > 0 && len(resp.Events) == 0 {
				continue
			}
			select {
			case told <- resp:
			case <-ctx.Done():
			}
		}
	}()
	return told
}

// leaveOutNext drops the next write.
func (f *forgetful) leaveOutNext(t *testing.T, db *objdb.DB) {
	t.Helper()
	f.leaveOut.Store(testdb.Put(t, db, "/elsewhere", "x") + 1)
}

// notify makes the store send a progress notification, as it does by itself now and then. On request, servers
// before 3.4.25 send it too early: the tests use members.
func (f *forgetful) notify(t *testing.T) {
	t.Helper()
	if err := f.RequestProgress(clientv3.WithRequireLeader(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestWhatAWatchLeavesOutIsFoundAndRead(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(t *testing.T, db *objdb.DB)
		part   bool // a mirror of a part detects it, too
	}{
		{"a creation", func(t *testing.T, db *objdb.DB) { testdb.Put(t, db, "/m/new", "2") }, true},
		{"a write", func(t *testing.T, db *objdb.DB) { testdb.Put(t, db, "/m/a", "2") }, true},
		{"a deletion", func(t *testing.T, db *objdb.DB) { testdb.Delete(t, db, "/m/a") }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			db := testdb.At(t, testetcd.NewMember(t))
			watch := forgetfully(t, db)
			testdb.Put(t, db, "/m/a", "1")
			_, whole := follow(t, db)
			replicas := []*replica{whole}
			if c.part {
				part := &replica{t: t, state: map[string]string{}}
				m := NewPart(db, "/m/", func(string) bool { return true }, part.deliver)
				testetcd.Run(t, m.Follow)
				testkit.Eventually(t, time.Minute, "the mirror of a part is in step", m.Synced)
				replicas = append(replicas, part)
			}
			watch.leaveOutNext(t, db)
			c.change(t, db)

			kvs, _, err := db.List(t.Context(), "/m/")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, kv := range kvs {
				want[kv.Key] = string(kv.Value)
			}
			for _, r := range replicas {
				testkit.Eventually(t, time.Minute, "what was left out arrives", func() bool {
					watch.notify(t)
					return cmp.Equal(want, r.contents())
				})
			}
		})
	}
}

func TestAMirrorThatIsRightGoesOnWithItsWatch(t *testing.T) {
	t.Parallel()
	db := testdb.At(t, testetcd.NewMember(t))
	watch := forgetfully(t, db)
	testdb.Put(t, db, "/m/a", "1")
	testdb.Put(t, db, "/m/b", "1")
	m, _ := follow(t, db)
	testdb.Put(t, db, "/m/a", "2")
	testdb.Delete(t, db, "/m/b")
	rev := testdb.Put(t, db, "/elsewhere", "1")
	testkit.Eventually(t, time.Minute, "a notification arrives", func() bool {
		watch.notify(t)
		return m.Revision() >= rev
	})
	if n := watch.watches.Load(); n != 1 {
		t.Errorf("%d watches, want one", n)
	}
}

// A store that has not changed, or was read a moment ago, is not read again.
func TestAMirrorIsVerifiedSeldom(t *testing.T) {
	t.Parallel()
	db := testdb.At(t, testetcd.NewMember(t))
	rev := testdb.Put(t, db, "/m/a", "1")
	m := New(db, "/m/", func(Batch) {})
	m.Seed([]objdb.KV{{Key: "/m/a", ModRevision: rev}}, rev)
	if err := m.verify(t.Context(), rev); err != nil || !m.verified.next.IsZero() {
		t.Errorf("a store that has not changed was read: %v", err)
	}
	rev = testdb.Put(t, db, "/m/a", "2")
	if err := m.verify(t.Context(), rev); !errors.Is(err, errGap) {
		t.Errorf("the write that is missing was not found: %v", err)
	}
	if err := m.verify(t.Context(), rev); err != nil {
		t.Errorf("the store was read again at once: %v", err)
	}
	m.verified.next = time.Time{}
	m.Seed([]objdb.KV{{Key: "/m/a", ModRevision: rev}}, rev)
	rev = testdb.Put(t, db, "/elsewhere", "1")
	if err := m.verify(t.Context(), rev); err != nil || m.verified.rev != rev {
		t.Errorf("verified to revision %d, want %d: %v", m.verified.rev, rev, err)
	}
}

// Readers of a feed cannot get a change late: they start over, and continue from there.
func TestAFeedWhoseWatchLeavesOutAChangeSendsItsReadersAway(t *testing.T) {
	for what, change := range map[string]func(t *testing.T, db *objdb.DB){
		"a creation": func(t *testing.T, db *objdb.DB) { testdb.Put(t, db, watched+"new", "2") },
		"a write":    func(t *testing.T, db *objdb.DB) { testdb.Put(t, db, watched+"a", "2") },
		"a deletion": func(t *testing.T, db *objdb.DB) { testdb.Delete(t, db, watched+"a") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := testdb.At(t, testetcd.NewMember(t))
			watch := forgetfully(t, db)
			before := testdb.Put(t, db, watched+"a", "1")
			f := newFeed(t, db)
			watch.leaveOutNext(t, db)
			change(t, db)
			testkit.Eventually(t, time.Minute, "readers have to start over", func() bool {
				watch.notify(t)
				_, _, _, err := f.After(before)
				return fault.Is(err, fault.Conflict)
			})
			present, _ := f.Revision()
			after := testdb.Put(t, db, watched+"b", "1")
			if got := told(t, f, present, after); got != "+b:>1" {
				t.Errorf("then the feed tells %s", got)
			}
		})
	}
}

// Changes of all kinds are recognized: no reader has to start over.
func TestAFeedThatIsRightKeepsItsReaders(t *testing.T) {
	t.Parallel()
	db := testdb.At(t, testetcd.NewMember(t))
	watch := forgetfully(t, db)
	before := testdb.Put(t, db, watched+"a", "1")
	f := newFeed(t, db)
	testdb.Put(t, db, watched+"b", "1")
	testdb.Put(t, db, watched+"b", "2")
	testdb.Delete(t, db, watched+"a")
	testdb.Put(t, db, watched+"a", "2")
	testdb.Delete(t, db, watched+"b")
	testdb.Put(t, db, watched+"c", "1")
	rev := testdb.Put(t, db, "/elsewhere", "1")
	testkit.Eventually(t, time.Minute, "a notification arrives", func() bool {
		watch.notify(t)
		have, _ := f.Revision()
		return have >= rev
	})
	if _, _, _, err := f.After(before); err != nil {
		t.Error(err)
	}
}
