package ovsd

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Whoever answers at the control socket is the one that runs, whatever sockets are left of earlier ones.
func TestASwitchBeganWhenItsProcessDid(t *testing.T) {
	dir := t.TempDir()
	d := &Driver{config: Config{RunDir: dir}}
	if got, err := d.Began(t.Context()); err == nil {
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
	if got, err := d.Began(t.Context()); err != nil || got.Sub(want).Abs() > time.Second/ticks {
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
