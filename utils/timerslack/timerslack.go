// Package timerslack lets the kernel wake the threads of a program up to a millisecond late.
//
// While a Go program does anything, and for some milliseconds after, the monitor thread of Go's runtime (sysmon)
// sleeps for 20 microseconds at a time, which the kernel's default slack extends to 70. A program that mostly
// waits for others and then works for a moment keeps its monitor awake nearly always: on a node with two
// processors those of netplugin, netmaster and contivk8s took a third of one while a pod was attached. With a
// slack of a millisecond they wake a tenth as often. In return timers are up to a millisecond late, and so is the
// monitor when it takes the processor from a goroutine in a long system call.
package timerslack

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// slack is how late the kernel may wake a thread, in nanoseconds.
const slack = 1_000_000

// Rerun executes the program again, with the slack, unless it already has it. No file may have been opened and no
// thread started yet: call it at the beginning of main. The process retains its id, arguments and environment.
// Rerun returns nil if the program has the slack, else an error.
//
// A process without CAP_SYS_NICE has no other way: a thread sets its own slack, threads that it starts inherit it,
// and the monitor is started before main.
func Rerun() error {
	if own, err := ofThread(); err != nil || own >= slack {
		return err
	}
	runtime.LockOSThread() // the thread with the slack must be the one that executes
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0); err != nil {
		return fmt.Errorf("set timer slack to %d ns: %w", slack, err)
	}
	if own, err := ofThread(); err != nil || own < slack { // for example with a real-time policy: the program would execute itself for ever
		return errors.Join(err, errors.New("set timer slack: the kernel takes none for this thread"))
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	return fmt.Errorf("set timer slack: run %s again: %w", program, unix.Exec(program, os.Args, os.Environ()))
}

// SetThreads sets the slack of all threads of the program, and so of those that they start. It requires
// CAP_SYS_NICE, and takes a few microseconds.
func SetThreads() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	var failed []error
	for _, thread := range threads {
		// This file exists for each thread's id, although /proc lists only processes.
		err := os.WriteFile("/proc/"+thread.Name()+"/timerslack_ns", []byte(strconv.Itoa(slack)), 0)
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	return nil
}

// ofThread returns the slack of the calling thread, in nanoseconds.
func ofThread() (int, error) {
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("ask for timer slack: %w", err)
	}
	return own, nil
}
