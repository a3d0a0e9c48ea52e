package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startLimit limits how long a daemon may take until it answers.
const startLimit = 60 * time.Second

// Process is a daemon running on a node, with its output in a log of its name.
type Process struct {
	Name string
	PID  int // seen from outside the node

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

// Start starts a program on the machine that runs until it ends or is killed.
func (m *machine) Start(name string, args ...string) (*Process, error) {
	log, err := m.openLog(name)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command("nsenter", append(m.enter(), args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.name, name, err)
	}
	p := &Process{Name: name, cmd: cmd, done: make(chan struct{})}
	child, childErr := onlyChild(context.Background(), cmd.Process.Pid)
	go func() {
		defer close(p.done)
		cmd.Wait() // its result is in the log
	}()
	if childErr != nil {
		return nil, fmt.Errorf("%s: %s has not started, see %s: %w", m.name, name, m.LogFile(name), childErr)
	}
	p.PID = child
	return p, nil
}

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill kills the process with SIGKILL and waits for its end.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Terminate ends the process with SIGTERM and waits for its end.
func (p *Process) Terminate() error { return p.end(syscall.SIGTERM) }

// Suspend stops the process with all of its threads; Resume continues it. nsenter, the parent, stops itself when
// it sees its child stopped, and then nothing would wait for the child's end. So nsenter is stopped before the
// child, and continued afterwards.
func (p *Process) Suspend() error {
	for _, pid := range []int{p.cmd.Process.Pid, p.PID} {
		if err := signal(syscall.SIGSTOP, pid); err != nil {
			return err
		}
		if err := awaitStanding(pid); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// awaitStanding waits until all threads of a process are stopped.
func awaitStanding(pid int) error {
	return within(context.Background(), startLimit, func() error {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range stats {
			data, readErr := os.ReadFile(path) // a thread may have ended
			if _, state, _ := strings.Cut(string(data), ") "); readErr == nil && !strings.HasPrefix(state, "T") {
				err = fmt.Errorf("a thread is not stopped: %s", data)
			}
		}
		return err
	})
}

// Resume continues a suspended process.
func (p *Process) Resume() error { return signal(syscall.SIGCONT, p.PID, p.cmd.Process.Pid) }

func signal(sig syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			return err
		}
	}
	return nil
}

func (p *Process) end(sig syscall.Signal) error {
	if p.Exited() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(startLimit):
		return fmt.Errorf("%s: still running %s after signal %v", p.Name, startLimit, sig)
	}
}
