package testkit

import (
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
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin := used()
	work()
	return used() - begin
}
