package testbed

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A machine may have been off for weeks: its daemons have another time from their first instruction on. Each program that a
// process executes gets a copy of its own of the kernel's code, so there is nothing to set before, and after it the program runs. A
// process that is to begin with another time is a shell first, which stops itself. From there on it is traced until it has executed
// the daemon, which stands still then, and has its clock set (clock.go). It has the timer slack for which daemons would execute
// themselves once more (package timerslack).
const standsFirst = `echo 1000000 >/proc/$$/timerslack_ns; kill -STOP $$; exec "$@"`

// SetClock has the daemons that are started on the node from now on begin with a time ahead of the machine's. Those of a
// confined bed cannot.
func (n *Node) SetClock(ahead time.Duration) { n.ahead = ahead }

// standing is the command of a process that stands still before it executes a program.
func standing(program string) []string { return []string{"sh", "-c", standsFirst, "sh", program} }

// startDaemon starts a daemon, with the clock of its node.
func (n *Node) startDaemon(name string, args []string) (*Process, error) {
	p, err := n.Start(name, args...)
	if err == nil && n.ahead != 0 {
		err = p.beginAhead(n.ahead)
	}
	return p, err
}

// beginAhead has a process that stands still execute its program, with another clock.
func (p *Process) beginAhead(ahead time.Duration) (err error) {
	if err := p.awaitOwnStop(); err != nil {
		return err
	}
	runtime.LockOSThread() // which traces
	defer runtime.UnlockOSThread()
	if err := ptrace(unix.PTRACE_SEIZE, p.PID, unix.PTRACE_O_TRACEEXEC); err != nil {
		return fmt.Errorf("%s: tracing it: %w", p.Name, err)
	}
	// nsenter has its child go on: nobody else, or the daemon would get a signal of that later.
	if err := signal(syscall.SIGCONT, p.cmd.Process.Pid); err != nil {
		return err
	}
	if err := p.awaitExec(); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return errors.Join(p.turnClock(ahead), unix.PtraceDetach(p.PID))
}

// awaitOwnStop waits until a process has stopped itself; nsenter stops when its child has.
func (p *Process) awaitOwnStop() error {
	for _, pid := range []int{p.PID, p.cmd.Process.Pid} {
		if err := awaitStanding(pid); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// awaitExec returns when a traced process has executed a program, and stands still before its first instruction.
func (p *Process) awaitExec() error {
	for {
		var status unix.WaitStatus
		switch _, err := unix.Wait4(p.PID, &status, unix.WALL, nil); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case !status.Stopped():
			return errors.New("it has ended before it began")
		}
		var err error
		switch event, sig := int(status)>>16, status.StopSignal(); {
		case event == unix.PTRACE_EVENT_EXEC:
			return nil
		case event == unix.PTRACE_EVENT_STOP && sig == unix.SIGSTOP: // it stands still until it is told to go on
			err = ptrace(unix.PTRACE_LISTEN, p.PID, 0)
		case event == unix.PTRACE_EVENT_STOP:
			err = unix.PtraceCont(p.PID, 0)
		default:
			err = unix.PtraceCont(p.PID, int(sig))
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
}

// ptrace makes a request that has one number.
func ptrace(request, pid, data int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), 0, uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
