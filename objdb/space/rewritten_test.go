package space_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/space"
	"github.com/contiv/netplugin/test/testkit"
)

// rewritten is a store whose live data nearly fills it and is written again all
// the time: a compaction frees what was before, and that is used again.
type rewritten struct {
	quota, live, perSecond int64 // bytes

	mu        sync.Mutex
	compacted time.Time
	most      int64 // in use at any moment
}

func (r *rewritten) Space(context.Context) ([]objdb.Space, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.live + int64(time.Since(r.compacted).Seconds()*float64(r.perSecond))
	r.most = max(r.most, used)
	return []objdb.Space{{URL: "own", Size: r.most, InUse: used, Quota: r.quota}}, nil
}

func (r *rewritten) Compact(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compacted = time.Now()
	return nil
}

func (r *rewritten) Defragment(context.Context, string) error { return nil }
func (r *rewritten) Disarm(context.Context) error             { return nil }

func TestHistoryThatGrowsFastIsCompactedBeforeItFillsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		r := &rewritten{quota: 4 << 30, live: 3600 * mib, perSecond: 10 * mib, compacted: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		space.New(space.Config{Store: r, Member: alone("own"), Log: testkit.Quiet()}).Run(ctx)
		if r.most > 97*r.quota/100 {
			t.Errorf("%d MiB of %d were in use", r.most/mib, r.quota/mib)
		}
	})
}
