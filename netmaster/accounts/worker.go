package accounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Serve does the tasks that it reads and writes their results, until there are no more: it is the whole work of a process
// of Workers. Call GiveWay before.
func Serve(in io.Reader, out io.Writer) error {
	tasks, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var t task
		if err := tasks.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a task: %w", err)
		}
		if err := results.Encode(t.do()); err != nil {
			return fmt.Errorf("write a result: %w", err)
		}
	}
}

// GiveWay has the kernel run the program while nothing else of its group wants the processor (SCHED_IDLE): any other thread that wakes
// takes it at once, where one of the lowest priority (nice 19) keeps it for some milliseconds. It is for the beginning of main:
// threads inherit the policy, and those that the runtime has started have another one, so the program begins anew with it. It
// returns when it has the policy, or cannot have it.
func GiveWay() {
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy == unix.SCHED_IDLE {
		return
	}
	runtime.LockOSThread() // the thread that is replaced is the one with the policy
	defer runtime.UnlockOSThread()
	var priority int32 // struct sched_param
	// Not sched_setattr, whose policy systemd's RestrictRealtime cannot see.
	_, _, _ = unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_IDLE, uintptr(unsafe.Pointer(&priority)))
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy != unix.SCHED_IDLE {
		return // it would begin anew for ever
	}
	_ = unix.Exec("/proc/self/exe", os.Args, os.Environ())
}
