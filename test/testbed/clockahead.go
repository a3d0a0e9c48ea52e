package testbed

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A machine may have been off for weeks: its daemons have another time from their first instruction on. Each
// program that a process executes gets its own copy of the kernel's code, so the clock cannot be set before, and
// afterwards the program runs. A process that is to begin with another time is at first a shell that stops itself.
// Then it is traced until it has executed the daemon, which is stopped, and has its clock set (clock.go). It gets
// the timer slack for which daemons would otherwise execute themselves again (package timerslack).
const standsFirst = `echo 1000000 >/proc/$$/timerslack_ns; kill -STOP $$; exec "$@"`

// SetClock makes daemons that are started on the node from now on begin with a time ahead of the machine's. It is
// not supported in a confined bed.
func (n *Node) SetClock(ahead time.Duration) { n.ahead = ahead }

// standing returns the command of a process that stops before it executes a program.
func standing(program string) []string { return []string{"sh", "-c", standsFirst, "sh", program} }

// startDaemon starts a daemon, with the clock of its node.
func (n *Node) startDaemon(name string, args []string) (*Process, error) {
	p, err := n.Start(name, args...)
	if err == nil && n.ahead != 0 {
		err = p.beginAhead(n.ahead)
	}
	return p, err
}

// beginAhead makes a stopped process execute its program, with another clock.
func (p *Process) beginAhead(ahead time.Duration) (err error) {
	if err := p.awaitOwnStop(); err != nil {
		return err
	}
	runtime.LockOSThread() // which is the tracer
	defer runtime.UnlockOSThread()
	if err := ptrace(unix.PTRACE_SEIZE, p.PID, unix.PTRACE_O_TRACEEXEC); err != nil {
		return fmt.Errorf("%s: tracing it: %w", p.Name, err)
	}
	// nsenter must continue its child: otherwise it would pass a later signal of it to the daemon.
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

// awaitExec returns when a traced process has executed a program, and is stopped before its first instruction.
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
		case event == unix.PTRACE_EVENT_STOP && sig == unix.SIGSTOP: // stopped until it is continued
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

// ptrace makes a request with one number.
func ptrace(request, pid, data int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), 0, uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
