// Package timerslack lets the kernel wake the threads of a program up to a millisecond late.
//
// While a Go program does anything, and for some milliseconds after, the monitor thread of
// Go's runtime (sysmon) sleeps for 20 microseconds at a time, which the kernel's usual slack
// makes 70. A program that mostly waits for others and then works for a moment has its
// monitor awake nearly always: on a node with two processors those of netplugin, netmaster
// and contivk8s took a third of one while a pod was attached. With a slack of a millisecond
// they wake a tenth as often. The price is that timers are up to a millisecond late, and so
// is the monitor when it gives the processor of a goroutine in a long system call to another.
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

// Rerun replaces the program by itself, with the slack, unless it has it. Nothing may have
// been opened or started yet: it is for the beginning of main. The process keeps its id,
// arguments and environment. It returns only if it has the slack, or an error.
//
// There is no other way for a process without CAP_SYS_NICE: a thread sets its own slack,
// those that it starts inherit it, and the monitor is started before main.
func Rerun() error {
	if own, err := ofThread(); err != nil || own >= slack {
		return err
	}
	runtime.LockOSThread() // the thread that is replaced is the one with the slack
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0); err != nil {
		return fmt.Errorf("set timer slack to %d ns: %w", slack, err)
	}
	if own, err := ofThread(); err != nil || own < slack { // as of a thread with a real-time policy: it would run itself for ever
		return errors.Join(err, errors.New("set timer slack: the kernel takes none for this thread"))
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	return fmt.Errorf("set timer slack: run %s again: %w", program, unix.Exec(program, os.Args, os.Environ()))
}

// SetThreads gives the slack to all threads of the program, and so to those that they
// start. It takes CAP_SYS_NICE, and a few microseconds.
func SetThreads() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	var failed []error
	for _, thread := range threads {
		// This file is found by a thread's id though /proc lists processes only.
		err := os.WriteFile("/proc/"+thread.Name()+"/timerslack_ns", []byte(strconv.Itoa(slack)), 0)
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	return nil
}

// ofThread is the slack of the thread that asks, in nanoseconds.
func ofThread() (int, error) {
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("ask for timer slack: %w", err)
	}
	return own, nil
}
