package objdb

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestALeaseOutlivesTheHoldersOwnLimit(t *testing.T) {
	for ttl := time.Second; ttl <= 60*time.Second; ttl += 250 * time.Millisecond {
		if leaseTTL(ttl) < ownLimit(ttl)+300*time.Millisecond {
			t.Errorf("TTL %s: lease %s, own limit %s", ttl, leaseTTL(ttl), ownLimit(ttl))
		}
	}
}

// The latest time at which etcd revokes a lease whose holder died with the store's leader.
func TestALeaseLeavesRoomForAnElectionInTheStore(t *testing.T) {
	const election, extension, look = 2 * time.Second, time.Second, 500 * time.Millisecond
	for ttl := 7 * time.Second; ttl <= 60*time.Second; ttl += time.Second {
		room := 500 * time.Millisecond
		if ttl >= 9*time.Second {
			room = 1500 * time.Millisecond
		}
		if latest := election + extension + leaseTTL(ttl) + look; latest > ttl+time.Second-room {
			t.Errorf("TTL %s: the lease of %s may be revoked after %s only", ttl, leaseTTL(ttl), latest)
		}
	}
}

func TestAPartitionedLeaderStepsDownByItsOwnClockAndItsWritesAreRefused(t *testing.T) {
	t.Parallel() // it mostly waits
	const ttl = 6 * time.Second
	url := testetcd.New(t)
	way := testetcd.NewProxy(t, url)
	far := open(t, Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second})
	near := open(t, Config{Endpoints: []string{url}})

	term := campaign(t, far, "far", ttl)
	first := Txn{Puts: []KV{{Key: state + "n", Value: []byte("1")}}}
	testkit.Eventually(t, time.Minute, "the holder writes", func() bool {
		_, ok, err := term.Txn(context.Background(), first)
		return err == nil && ok
	})

	way.Silence()
	successor := campaign(t, near, "near", time.Minute)
	if term.Trusted() == nil { // its timer may be late, the clock is not
		t.Error("somebody else leads before the holder stepped down")
	}
	way.Mend()
	guarded := Txn{If: []Guard{term.Fence()}, Puts: []KV{{Key: state + "n", Value: []byte("stale")}}}
	testkit.Eventually(t, time.Minute, "old leader reaches the store", func() bool {
		_, ok, err := far.Txn(context.Background(), guarded)
		if err == nil && ok {
			t.Fatal("a write of the ended term was taken")
		}
		return err == nil
	})
	if got := valueOf(t, near, state+"n"); got != "1" {
		t.Errorf("n is %s", got)
	}
	resign(t, term) // revokes what is left
	resign(t, successor)
}

func TestATermEndsWhenTheClockSaysSo(t *testing.T) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	db := open(t, Config{Endpoints: []string{testetcd.New(t)}, Now: now})
	term := campaign(t, db, "a", time.Minute)
	if err := term.Trusted(); err != nil {
		t.Errorf("a young term: %v", err)
	}
	ahead.Store(int64(time.Hour)) // as after a suspension of the machine
	if err := term.Trusted(); !fault.Is(err, fault.NotLeader) || term.Context().Err() == nil {
		t.Errorf("before any timer has run: %v, context %v", err, term.Context().Err())
	}
	select {
	case <-term.Context().Done():
	case <-time.After(30 * time.Second):
		t.Error("the term goes on")
	}
	resign(t, term)
}

func TestTheStandardClockGoesOnWhileTheMachineIsSuspended(t *testing.T) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		t.Fatal(err)
	}
	if ahead := (Config{}).withDefaults().Now().Sub(time.Unix(boot.Unix())); ahead < 0 || ahead > time.Minute {
		t.Errorf("%s ahead of the time since boot", ahead)
	}
}
