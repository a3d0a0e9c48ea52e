package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv("BE_CONFINE") != "" {
		main()
	}
	os.Exit(m.Run())
}

// sandbox is a unit of few settings.
const sandbox = `
[Unit]
Description=nothing of this section counts

[Service]
Type=notify
Environment=GREETING=hello
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN
MemoryDenyWriteExecute=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectSystem=strict
ReadWritePaths=OWN -/not/there
RestrictAddressFamilies=AF_UNIX AF_NETLINK
RestrictNamespaces=yes
SystemCallFilter=@system-service setns
SystemCallFilter=~@resources
UMask=0077
`

// attempts prints what a program in the sandbox can do.
const attempts = `
try() { if sh -c "$2" >/dev/null 2>&1; then echo "$1: yes"; else echo "$1: no"; fi; }
try "writes to what is its own" "echo >OWN/file"
try "writes elsewhere" "echo >BESIDE/file"
try "sees the tmp of others" "test -e BESIDE"
try "has devices of the machine" "test -e /dev/mem -o -e /dev/kmsg"
try "uses a device that is none" "echo >/dev/null"
try "opens a unix socket" "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'"
try "opens an IP socket" "python3 -c 'import socket; socket.socket(socket.AF_INET)'"
try "makes a network namespace" "unshare --net true"
try "enters one" "nsenter --net=/proc/self/ns/net true"
try "makes memory that it can write to and execute" "python3 -c 'import mmap; mmap.mmap(-1, 4096, prot=7)'"
try "changes its priority" "nice -n 1 true 2>&1 | grep -q . && exit 1 || exit 0"
echo "greeting: $GREETING, umask $(umask)"
grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status`

func TestAProgramIsConfinedAsItsUnitSays(t *testing.T) {
	testkit.NeedsMachine(t)
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Fatal("no systemd-analyze here; make deps brings it")
	}
	own, err := os.MkdirTemp("/run", "confine-") // it would not see those of tests
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	beside := t.TempDir()
	places := strings.NewReplacer("OWN", own, "BESIDE", beside)
	file := filepath.Join(beside, "sandbox.service")
	if err := os.WriteFile(file, []byte(places.Replace(sandbox)), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(unit string) string {
		cmd := exec.Command("unshare", "--mount", "/proc/self/exe", unit, "/bin/sh", "-c", places.Replace(attempts))
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args[2] = self
		cmd.Env = append(os.Environ(), "BE_CONFINE=1")
		out, _ := cmd.CombinedOutput() // its output is checked
		return string(out)
	}
	want := `writes to what is its own: yes
writes elsewhere: no
sees the tmp of others: no
has devices of the machine: no
uses a device that is none: yes
opens a unix socket: yes
opens an IP socket: no
makes a network namespace: no
enters one: no
makes memory that it can write to and execute: no
changes its priority: no
greeting: hello, umask 0077
CapEff:	0000000000203000
CapBnd:	0000000000203000
NoNewPrivs:	1
Seccomp:	2
`
	if got := run(file); got != want {
		t.Errorf("in the sandbox:\n%s\nwant:\n%s", got, want)
	}
	unknown := filepath.Join(beside, "unknown.service")
	if err := os.WriteFile(unknown, []byte("[Service]\nProtectEverything=yes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(unknown); !strings.Contains(got, "ProtectEverything=yes") || strings.Contains(got, "greeting") {
		t.Errorf("a unit with a setting that nobody knows: %s", got)
	}
}
