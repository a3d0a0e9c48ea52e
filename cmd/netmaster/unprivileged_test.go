package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// nobody is a user who owns nothing.
const nobody = 65534

// sandbox runs a program as the unit does: as a user without capabilities, who can get none, in a
// file system of which one directory can be written to.
const sandbox = `
mount --bind "$1" "$1"
mount -o bind,remount,ro /
shift
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`

func TestANetmasterNeedsNoPrivileges(t *testing.T) {
	testkit.NeedsMachine(t)
	dir, err := os.MkdirTemp("", "netmaster-") // those of tests are in one for root only
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chown(dir, nobody, nobody)
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Open("/proc/self/exe") // its folder is for root only
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	p := &process{T: t, addr: testkit.FreeAddress(), store: testkit.FreeURL()}
	socket := filepath.Join(dir, "run", "netmaster.sock")
	p.cmd = exec.Command("unshare", "--mount", "sh", "-ec", sandbox, "sh", dir, "/proc/self/fd/3",
		"--mode", "cni", "--netmode", "vxlan", "--fwdmode", "routing", "--external-address", p.addr, "--internal-address", p.addr,
		"--secure", "--pki-dir", filepath.Join(dir, "pki"), "--socket", socket, "--audit-log", filepath.Join(dir, "audit.log"),
		"--embedded-etcd", filepath.Join(dir, "etcd"), "--embedded-etcd-client-url", p.store, "--embedded-etcd-peer-url", testkit.FreeURL(),
		"--embedded-etcd-unsafe-no-fsync")
	p.cmd.Env = append(os.Environ(), "BE_NETMASTER=1")
	p.cmd.ExtraFiles = []*os.File{program}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	defer func() {
		if t.Failed() {
			t.Logf("its log:\n%s", p.log.String())
		}
	}()
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
	root := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	testkit.Eventually(t, 20*time.Second, "root is served at the socket", func() bool {
		resp, err := root.Get("http://netmaster/version")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	testkit.Eventually(t, 20*time.Second, "it has made its authorities", func() bool {
		list, err := os.ReadDir(filepath.Join(dir, "pki"))
		return err == nil && len(list) > 0
	})
}
