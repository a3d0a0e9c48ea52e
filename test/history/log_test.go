package history

import (
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
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
		{"the beginning", 1, events(7, 7, 8), 0},
		{"a hole in the beginning", 1, events(7, 9), 8},
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
