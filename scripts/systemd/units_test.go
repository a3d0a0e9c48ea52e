// Package systemd tests the units of the daemons.
package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exposure is how much a service could do to its machine at most, as systemd-analyze judges
// it: 100 is everything.
var exposure = map[string]string{"netmaster.service": "15", "netplugin.service": "40"}

func TestServicesMayDoNoMoreThanTheyNeed(t *testing.T) {
	for unit, most := range exposure {
		if out, err := analyze(t, "security", "--offline=true", "--no-pager", "--threshold="+most, unit); err != nil {
			t.Errorf("%s may do more than %s of 100: %v\n%s", unit, most, err, out)
		}
	}
}

func TestUnitsAreUnderstood(t *testing.T) {
	root := t.TempDir() // with the programs and files that the units name
	for _, name := range []string{"usr/bin/netmaster", "usr/bin/netplugin", "bin/ln", "bin/kill"} {
		write(t, filepath.Join(root, name), nil, 0o755)
	}
	for unit := range exposure {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, "etc/systemd/system", unit), text, 0o644)
	}
	for unit := range exposure {
		out, err := analyze(t, "verify", "--root="+root, "--man=false", "--recursive-errors=no", unit)
		if err != nil || bytes.Contains(out, []byte("nknown")) {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}

// analyze runs systemd-analyze, which needs no systemd that runs. Users of the unit need not exist.
func analyze(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("no systemd-analyze here; make deps brings it")
	}
	return exec.Command(program, args...).CombinedOutput()
}

func write(t *testing.T, path string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
}

// A line that only one of the daemons needs must not be copied to the other.
func TestNetmasterIsAUserWithoutCapabilities(t *testing.T) {
	has(t, "netmaster.service", "User=contiv", "CapabilityBoundingSet=", "NoNewPrivileges=yes")
}

// SIGHUP has netmaster read certificates again.
func TestNetmasterIsReloadedBySIGHUP(t *testing.T) {
	has(t, "netmaster.service", "ExecReload=/bin/kill -HUP $MAINPID")
}

// Open vSwitch may run as a user of its own, whose sockets root reaches with CAP_DAC_OVERRIDE only.
func TestNetpluginReachesAnOpenVSwitchOfAnotherUser(t *testing.T) {
	has(t, "netplugin.service", "CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN CAP_NET_BIND_SERVICE CAP_DAC_OVERRIDE")
}

// A folder of another package that is not there must not keep the agent from starting, which waits for Open
// vSwitch itself.
func TestNetpluginStartsWithoutTheFoldersOfOthers(t *testing.T) {
	text, err := os.ReadFile("netplugin.service")
	if err != nil {
		t.Fatal(err)
	}
	_, paths, found := strings.Cut(string(text), "\nReadWritePaths=")
	paths, _, _ = strings.Cut(paths, "\n")
	for path := range strings.FieldsSeq(paths) {
		if !strings.HasPrefix(path, "-") {
			t.Errorf("%s has to be there", path)
		}
	}
	if !found {
		t.Error("it may write nowhere")
	}
}

// has checks that a unit has lines.
func has(t *testing.T, unit string, lines ...string) {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("%s has no line %s", unit, line)
		}
	}
}
