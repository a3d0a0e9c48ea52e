package history

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestARevisionThatAWatchLeavesOutIsSeen(t *testing.T) {
	events := func(revisions ...int64) (list []*clientv3.Event) {
		for _, revision := range revisions {
			list = append(list, &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: revision}})
		}
		return list
	}
	for _, c := range []struct {
		why     string
		next    int64
		events  []*clientv3.Event
		missing int64
	}{
		{"the beginning", firstRevision, events(2, 2, 3), 0},
		{"a hole in the beginning", firstRevision, events(7, 9), 2},
		{"what comes next", 9, events(9, 9, 9, 10), 0},
		{"one left out before", 9, events(10), 9},
		{"one left out between", 9, events(9, 9, 11), 10},
		{"nothing", 9, nil, 0},
	} {
		if got := leftOut(c.next, c.events); got != c.missing {
			t.Errorf("%s: %d is missing, want %d", c.why, got, c.missing)
		}
	}
}

// emptyStore is a client of a store of its own.
func emptyStore(t *testing.T) *clientv3.Client {
	t.Helper()
	beside := startBeside(t.Context(), t)
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{beside.URL}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// A store whose beginning has been compacted cannot be read again from there. That is reported.
func TestAHistoryThatIsNotReadAgainSaysSo(t *testing.T) {
	store := emptyStore(t)
	r := Record(t.Context(), store)
	if _, err := store.Put(t.Context(), operPrefix+"a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := r.end(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.done.Wait() // all changes have arrived
	newest, err := store.Put(t.Context(), "/beside", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Compact(t.Context(), newest.Header.Revision); err != nil {
		t.Fatal(err)
	}
	log, err := r.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Changes) != 1 || len(log.Gaps) != 1 || !strings.Contains(log.Gaps[0], "forgotten its beginning") {
		t.Errorf("changes %v, gaps %v", log.Changes, log.Gaps)
	}
}

// A client may have lost the answer of a large change and not wait for its end. The record does.
func TestAHistoryDoesNotEndInTheMiddleOfALargeChange(t *testing.T) {
	store := emptyStore(t)
	const mark = journalPrefix + "leader" + markSuffix
	if _, err := store.Put(t.Context(), mark, "{}"); err != nil {
		t.Fatal(err)
	}
	r := Record(t.Context(), store)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := r.end(ctx); err == nil {
		t.Error("ended in the middle")
	}
	if _, err := store.Delete(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	log, err := r.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(log.spans) != 1 || log.spans[0].to == forever {
		t.Errorf("large changes are %v", log.spans)
	}
}
