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

// rewritten is a store whose live data nearly fills it and is rewritten all the time: a compaction frees the old
// data, and the room is used again.
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

// crowded is a store whose file has room once it is defragmented, and is in a given state until then.
type crowded struct {
	state func(now time.Time) objdb.Space

	rewritten time.Time // when its file was defragmented
}

func (c *crowded) Space(context.Context) ([]objdb.Space, error) {
	m := c.state(time.Now())
	m.URL = "own"
	if !c.rewritten.IsZero() {
		m.Size, m.Full = m.InUse, false
	}
	return []objdb.Space{m}, nil
}

func (*crowded) Compact(context.Context) error { return nil }
func (*crowded) Disarm(context.Context) error  { return nil }

func (c *crowded) Defragment(context.Context, string) error {
	c.rewritten = time.Now()
	return nil
}

// Room freed by a compaction is not reported before the next write. Once reported, it is used at the next check,
// however long the pause between attempts has become.
func TestAFileIsWrittenAnewAsSoonAsItIsKnownWhatIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 4 << 30
		written := time.Now().Add(5*time.Minute + 10*time.Second)
		s := &crowded{state: func(now time.Time) objdb.Space {
			if now.Before(written) {
				return objdb.Space{Size: quota, InUse: quota, Quota: quota}
			}
			return objdb.Space{Size: quota, InUse: quota / 10, Quota: quota}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		space.New(space.Config{Store: s, Member: alone("own"), Log: testkit.Quiet()}).Run(ctx)
		if took := s.rewritten.Sub(written); took < 0 || took > 5*time.Second {
			t.Errorf("its file was written anew %v after there was room", took)
		}
	})
}

// turnless is a member whose turn never comes.
type turnless struct{ alone }

func (turnless) Turn(ctx context.Context) (func(), error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Taking a turn writes to the store. If the file has reached the quota, that raises the alarm, which others may
// have disarmed; and if the alarm is raised while a member waits for its turn, the turn never comes.
func TestNoTurnIsWaitedForThatCannotCome(t *testing.T) {
	const quota = 4 << 30
	for name, c := range map[string]struct {
		size  int64
		full  time.Duration // time until the alarm
		after time.Duration // time limit for the defragmentation
	}{
		"others have taken the alarm back": {quota + 4096, time.Hour, 0},
		"the alarm is raised meanwhile":    {85 * quota / 100, time.Minute, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := &crowded{state: func(now time.Time) objdb.Space {
					return objdb.Space{Size: c.size, InUse: quota / 10, Quota: quota, Full: now.Sub(began) >= c.full}
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				space.New(space.Config{Store: f, Member: turnless{"own"}, Log: testkit.Quiet()}).Run(ctx)
				if took := f.rewritten.Sub(began); f.rewritten.IsZero() || took > c.after {
					t.Errorf("its file was written anew after %v", took)
				}
			})
		})
	}
}
