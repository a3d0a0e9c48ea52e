package testkit

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a process that ends with this program at the latest, however that ends. ended is closed when the
// process has ended; its exit status is then in the command's ProcessState.
//
// The kernel kills it when the thread that started it ends. So a goroutine locks the thread while the process
// runs, and unlocks it afterwards: the thread may have started other processes before.
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
			_ = cmd.Wait() // most are killed; the state has the status
		}
	}()
	return done, <-started
}
