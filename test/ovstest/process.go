package ovstest

import (
	"os/exec"

	"github.com/contiv/netplugin/test/testkit"
)

// process is a running daemon.
type process struct {
	cmd  *exec.Cmd
	done <-chan struct{} // closed when it has ended
}

// spawn starts a daemon in the switch's namespace. It ends even if the test crashes.
func (s *Switch) spawn(name string, args ...string) *process {
	s.t.Helper()
	p := &process{cmd: s.Command(name, args...)}
	var err error
	if p.done, err = testkit.Start(p.cmd); err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	return p
}

// kill kills the daemon and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}
