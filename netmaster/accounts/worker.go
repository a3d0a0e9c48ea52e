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

// Serve reads tasks and writes their results until the end of the input: it is the main loop of a process of
// Workers. Call GiveWay before.
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

// GiveWay sets the policy SCHED_IDLE, under which the kernel runs the program only while no other program of its
// group needs the processor: any other thread that wakes gets it at once, where one of the lowest priority (nice
// 19) retains it for some milliseconds. Call it at the beginning of main: threads inherit the policy, but those
// that the runtime has already started have another one, so the program executes itself again. It returns if it
// has the policy, or cannot have it.
func GiveWay() {
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy == unix.SCHED_IDLE {
		return
	}
	runtime.LockOSThread() // the thread with the policy must be the one that executes
	defer runtime.UnlockOSThread()
	var priority int32 // struct sched_param
	// Not sched_setattr: systemd's RestrictRealtime cannot check its policy.
	_, _, _ = unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_IDLE, uintptr(unsafe.Pointer(&priority)))
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy != unix.SCHED_IDLE {
		return // it would execute itself for ever
	}
	_ = unix.Exec("/proc/self/exe", os.Args, os.Environ())
}
