package testkit

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a process that ends with this program at the latest, whatever ends that. ended is closed when it has
// ended; its exit status is in the command's ProcessState then.
//
// The kernel ends it with the thread that has started it. So a goroutine keeps the thread while the process runs, and gives
// it back then: other processes may have been started by it before.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // most are killed; the state has the rest
		}
	}()
	return done, <-started
}
