package ovstest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// process is a running daemon.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// spawn starts a daemon in the switch's namespace.
//
// The kernel kills it when the thread that started it ends, so that a test
// that crashes leaves nothing behind. For that to mean "when the test ends",
// the thread must live as long as the daemon: it is kept by the goroutine that
// waits for it.
func (s *Switch) spawn(name string, args ...string) *process {
	s.t.Helper()
	p := &process{cmd: s.Command(name, args...), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it is killed: its exit status says nothing
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	return p
}

// kill ends the daemon and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}
