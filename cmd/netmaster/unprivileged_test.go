package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// nobody is a user id that owns nothing.
const nobody = 65534

// sandbox runs a program as the unit does: as a user that has no capabilities and can get none, in a file system
// with one writable directory.
const sandbox = `
mount --bind "$1" "$1"
mount -o bind,remount,ro /
shift
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`

// openDir returns a directory for the test that other users than root can enter, unlike those of package testing.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "netmaster-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// startUnprivileged starts it in a sandbox where it may write below a directory.
func (p *process) startUnprivileged(dir string, flags ...string) {
	p.Helper()
	program, err := os.Open("/proc/self/exe") // its folder is for root only
	if err != nil {
		p.Fatal(err)
	}
	defer program.Close()
	p.cmd = exec.Command("unshare", slices.Concat([]string{"--mount", "sh", "-ec", sandbox, "sh", dir, "/proc/self/fd/3"}, p.flags, flags)...)
	p.cmd.ExtraFiles = []*os.File{program}
	p.begin()
}

func TestANetmasterNeedsNoPrivileges(t *testing.T) {
	testkit.NeedsMachine(t)
	dir := openDir(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	p := closedAlone(t, "http:")
	p.endsWithTest()
	p.startUnprivileged(dir, keptIn(dir)...)
	leader(t, time.Minute, []*process{p})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Uid:\t65534\t65534\t65534\t65534", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), line) {
			t.Errorf("it does not run as %q:\n%s", line, status)
		}
	}
	root := clientAt(t, filepath.Join(dir, "netmaster.sock"))
	testkit.Eventually(t, 20*time.Second, "root is served at the socket", func() bool {
		resp, err := root.Get("http://netmaster/version")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	testkit.Eventually(t, 20*time.Second, "it has made its authorities", func() bool {
		list, err := os.ReadDir(filepath.Join(dir, "pki"))
		return err == nil && len(list) > 0
	})
}
