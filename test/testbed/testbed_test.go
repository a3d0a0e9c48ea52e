package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func newBareBed(t *testing.T, cfg Config) (context.Context, *Bed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cfg.Nodes, cfg.Log = 2, t.Output()
	bed, err := New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, bed
}

func TestNodesReachEachOtherOnBothNetworks(t *testing.T) {
	ctx, bed := newBareBed(t, Config{})
	for _, address := range []string{bed.Nodes[1].MgmtIP, bed.Nodes[1].VTEPIP} {
		if _, err := bed.Nodes[0].Run(ctx, "ping", "-c1", "-W30", "-n", address); err != nil {
			t.Error(err)
		}
	}
}

func TestANodeSeesOnlyItself(t *testing.T) {
	ctx, bed := newBareBed(t, Config{})
	n := bed.Nodes[0]
	for _, script := range []string{
		`[ "$(hostname)" = node1 ]`,
		`echo mine > /etc/only-here; echo mine > /var/only-here; echo mine > /run/only-here`,
		`[ "$(ovs-vsctl list-br)" = br-phy ]`,
	} {
		if _, err := n.Run(ctx, "sh", "-ec", script); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{"/etc/only-here", "/var/only-here", "/run/only-here"} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of the node is seen outside: %v", path, err)
		}
		if _, err := bed.Nodes[1].Run(ctx, "test", "!", "-e", path); err != nil {
			t.Error(err)
		}
	}
}

func TestANodeHasNothingOfTheHostsDaemons(t *testing.T) {
	for _, dir := range []string{"/var/lib/contiv", "/var/contiv"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		foreign, err := os.CreateTemp(dir, "foreign-")
		if err != nil {
			t.Fatal(err)
		}
		foreign.Close()
		t.Cleanup(func() { os.Remove(foreign.Name()); os.Remove(dir) }) // the directory only if it is empty
	}
	ctx, bed := newBareBed(t, Config{})
	for _, n := range bed.Nodes {
		if out, err := n.Run(ctx, "find", "/var/lib/contiv", "/var/contiv", "-mindepth", "1"); err != nil || out != "" {
			t.Errorf("%s begins with %q, %v", n.Name, out, err)
		}
	}
}

func TestCloseEndsWhatRanOnTheNodes(t *testing.T) {
	_, bed := newBareBed(t, Config{})
	p, err := bed.Nodes[0].Start("sleeper", "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{p.PID, bed.Nodes[0].vswitchd.PID, bed.Nodes[1].ovsdb.PID}
	if err := bed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if err := waitGone(pid); err != nil {
			t.Errorf("process %d still runs: %v", pid, err)
		}
	}
	if _, err := os.Stat(bed.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", bed.Dir, err)
	}
}

func TestAKilledSwitchComesBackWithItsBridge(t *testing.T) {
	ctx, bed := newBareBed(t, Config{})
	n := bed.Nodes[0]
	if err := n.KillVSwitchd(); err != nil {
		t.Fatal(err)
	}
	if err := n.KillOVSDB(); err != nil {
		t.Fatal(err)
	}
	if err := n.StartOVS(ctx); err != nil {
		t.Fatal(err)
	}
	out, err := n.Run(ctx, "ovs-vsctl", "list-ports", "br-phy")
	if err != nil || strings.TrimSpace(out) != "uplink" {
		t.Errorf("ports of br-phy: %q, %v", out, err)
	}
}

func TestAProcessThatStoodStillIsEndedLikeAnyOther(t *testing.T) {
	_, bed := newBareBed(t, Config{})
	for range 5 {
		p, err := bed.Nodes[0].Start("sleep", "sleep", "60")
		if err != nil {
			t.Fatal(err)
		}
		for _, do := range []func() error{p.Suspend, p.Resume, p.Suspend, p.Resume} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Kill() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("nobody notices the end of a process that stood still")
		}
	}
}

func TestADetachedBedIsFoundAgain(t *testing.T) {
	ctx, bed := newBareBed(t, Config{Detach: true, Dir: t.TempDir()})
	again, err := Open(bed.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := again.Nodes[1].Run(ctx, "hostname"); err != nil || out != "node2\n" {
		t.Errorf("node2 says %q, %v", out, err)
	}
	pid := again.Nodes[1].pid
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("node2 still runs: %v", err)
	}
	if _, err := Open(bed.Dir); err == nil {
		t.Error("a closed bed was found")
	}
}

func TestABedOfStrangersIsNotTouched(t *testing.T) {
	ctx, bed := newBareBed(t, Config{Detach: true, Dir: t.TempDir()})
	// As after a reboot: the process ids in the file belong to others now.
	data, err := os.ReadFile(bed.stateFile())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := bed.Nodes[0].Start("stranger", "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(data), fmt.Sprint(bed.Nodes[0].pid), fmt.Sprint(stranger.PID), 1)
	if err := os.WriteFile(bed.stateFile(), []byte(forged), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(bed.Dir); err == nil && again.Nodes[0].Alive() {
		t.Error("a process that the bed did not start counts as a node")
	}
	if ctx.Err() != nil || stranger.Exited() {
		t.Error("the stranger was ended")
	}
}
