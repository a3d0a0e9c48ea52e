package testkit

import (
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Processor is how long work, which is done by one goroutine, has run on a processor: what
// others run meanwhile does not count.
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

// Least is the shortest time on a processor of each work, of several turns in which all are done one
// after the other: what slows the machine for a while lengthens a turn of all of them, and not the shortest.
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
