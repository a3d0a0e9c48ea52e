package testkit

import (
	"os/exec"
	"syscall"
	"testing"
)

// A process that ends takes none with it that the same thread has started.
func TestOthersOutliveAProcessThatEnds(t *testing.T) {
	var others []*exec.Cmd
	for range 20 {
		other := exec.Command("sleep", "60")
		other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, other)
		ended, err := Start(exec.Command("true"))
		if err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	for i, other := range others {
		if err := other.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(other.Process.Pid, &status, 0, nil); err != nil || status.Signal() != syscall.SIGTERM {
			t.Errorf("process %d ended by %v, %v", i, status.Signal(), err)
		}
	}
}
