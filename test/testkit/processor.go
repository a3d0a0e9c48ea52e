package testkit

import (
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Processor returns the processor time of work, which must run in one goroutine: what other threads run meanwhile
// does not count.
func Processor(t testing.TB, work func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			t.Fatal(err)
		}
		return time.Duration(now.Nano())
	}
	begin := used()
	work()
	return used() - begin
}

// Least returns the shortest processor time of each work, out of several turns that run all of them one after the
// other: a temporary slowdown of the machine extends a turn of all of them, but not the shortest.
func Least(t testing.TB, turns int, works ...func()) []time.Duration {
	t.Helper()
	least := make([]time.Duration, len(works))
	for i := range least {
		least[i] = math.MaxInt64
	}
	for range turns {
		for i, work := range works {
			least[i] = min(least[i], Processor(t, work))
		}
	}
	return least
}
