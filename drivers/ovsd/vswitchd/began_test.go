package vswitchd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// The process that answers at its control socket is the running one, whatever sockets earlier ones have left.
func TestASwitchBeganWhenItsProcessDid(t *testing.T) {
	dir := t.TempDir()
	c := Control{dir}
	if got, err := c.Began(t.Context()); err == nil {
		t.Errorf("nothing runs, and has begun at %v", got)
	}
	for _, name := range []string{"ovs-vswitchd.1.ctl", "ovs-vswitchd.2.ctl"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		if l.SetUnlinkOnClose(false); name == "ovs-vswitchd.1.ctl" {
			l.Close()
		}
		defer l.Close()
	}
	want, err := began(os.Getpid())
	if err != nil || want.IsZero() {
		t.Fatal(want, err)
	}
	if got, err := c.Began(t.Context()); err != nil || got.Sub(want).Abs() > time.Second/ticks {
		t.Errorf("it has begun at %v, %v; want %v", got, err, want)
	}
}

func TestWhenAProcessBeganIsKnownByTheKernelsTicks(t *testing.T) {
	before := time.Now()
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	got, err := began(other.Process.Pid)
	if err != nil || got.Before(before.Add(-2*time.Second/ticks)) || got.After(time.Now().Add(time.Second/ticks)) {
		t.Errorf("it has begun at %v, %v; want from %v on", got, err, before)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	if got, err := began(other.Process.Pid); err != nil || !got.IsZero() {
		t.Errorf("a process that is gone has begun at %v, %v", got, err)
	}
}

// A crashed switch is restarted by its monitor, as a child process of the same program.
func TestASwitchThatWasMadeAnewByItsMonitorIsAsOldAsThat(t *testing.T) {
	name := filepath.Join(t.TempDir(), monitor)
	if err := os.Symlink("/bin/sh", name); err != nil {
		t.Fatal(err)
	}
	watching := exec.Command(name, "-c", "while read x; do sleep 60 & all=\"$all $!\"; echo $!; done; kill $all; wait")
	ask, err := watching.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := watching.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := testkit.Start(watching)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ask.Close()
		<-ended
	}()
	const apart = 100 * time.Millisecond
	var pid int
	testkit.Eventually(t, time.Minute, "a process that is younger than who watches it", func() bool {
		_, errAsk := fmt.Fprintln(ask)
		_, errAnswer := fmt.Fscan(answers, &pid)
		own, errOwn := processOf(pid)
		parent, errParent := processOf(watching.Process.Pid)
		if err := errors.Join(errAsk, errAnswer, errOwn, errParent); err != nil || own.parent != watching.Process.Pid || parent.name != monitor {
			t.Fatal(own, parent, err)
		}
		return own.after-parent.after > apart
	})
	got, errGot := began(pid)
	want, errWant := began(watching.Process.Pid)
	if errGot != nil || errWant != nil || got.Sub(want).Abs() >= apart/2 {
		t.Errorf("it has begun at %v, %v; want %v, %v", got, errGot, want, errWant)
	}
}
