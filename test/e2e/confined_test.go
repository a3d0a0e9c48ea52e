package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// Both acts of the demo, in the first of which an agent and the leading netmaster are killed, run with daemons in
// the sandbox of scripts/systemd: user, capabilities, view of the file system and system calls.
func TestLongDaemonsDoTheirJobInTheSandboxOfTheirUnits(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBed(t, testbed.Config{Nodes: 3, Uplinks: 1, Secure: true, First: true, Confined: true})
	for daemon, want := range map[string][]string{
		"netmaster": {"CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"},
		"netplugin": {"CapBnd:\t0000000000203402", "CapEff:\t0000000000203402", "NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t0\t0\t0\t0"},
	} {
		for _, n := range bed.Nodes {
			if err := confined(n, daemon, want); err != nil {
				t.Error(err)
			}
		}
	}
	play(t, ctx, bed, scenario.MainJob, scenario.SecondAct)
	nothingWasRefused(t, bed)
}

// The stories of `make e2e` are the same for daemons in the sandbox of their units.
func TestLongStoriesOfDaemonsInTheSandboxOfTheirUnits(t *testing.T) {
	testkit.TakesLong(t)
	for _, bed := range []struct {
		about    string
		nodes    int
		chapters [][]chapter
	}{
		{"traffic, services and hosts", 2, [][]chapter{counterChapters, limitChapters, serviceChapters, entranceChapters, hostChapters, packetInChapters}},
		{"runtimes and switches", 2, [][]chapter{runtimeChapters, switchChapters, handChapters}},
		{"masters, agents and the store", 3, [][]chapter{masterChapters, agentChapters}},
		{"tenants and clients", 3, [][]chapter{tenantChapters, networkChapters, badInputChapters}},
	} {
		t.Run(bed.about, func(t *testing.T) {
			tellOn(t, testbed.Config{Nodes: bed.nodes, Confined: true}, slices.Concat(bed.chapters...))
		})
	}
}

// nothingWasRefused looks for refusals of the kernel in the logs of the daemons.
func nothingWasRefused(t *testing.T, bed *testbed.Bed) {
	t.Helper()
	for _, n := range bed.Nodes {
		for _, daemon := range []string{"netmaster", "netplugin"} {
			log, err := os.ReadFile(n.LogFile(daemon))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(log)) {
				for _, refused := range []string{syscall.EPERM.Error(), syscall.EACCES.Error(), syscall.EROFS.Error()} {
					if strings.Contains(strings.ToLower(line), refused) {
						t.Errorf("%s: %s was refused something: %s", n.Name, daemon, line)
					}
				}
			}
		}
	}
}

// confined returns how a daemon's process differs from the wanted one.
func confined(n *testbed.Node, daemon string, want []string) error {
	process := n.Netmaster()
	if daemon == "netplugin" {
		process = n.Netplugin()
	}
	of := fmt.Sprintf("/proc/%d/", process.PID)
	status, err := os.ReadFile(of + "status")
	if err != nil {
		return err
	}
	for _, line := range want {
		if !strings.Contains(string(status), line+"\n") {
			return fmt.Errorf("%s: %s does not run with %q:\n%s", n.Name, daemon, line, status)
		}
	}
	if user := strings.Contains(string(status), "Uid:\t0\t"); user != (daemon == "netplugin") {
		return fmt.Errorf("%s: %s is root: %t", n.Name, daemon, user)
	}
	var files unix.Statfs_t
	if err := unix.Statfs(of+"root/usr", &files); err != nil || files.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("%s: %s sees a file system that can be written to: %v", n.Name, daemon, err)
	}
	return nil
}
