package main

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A second netplugin on a node says so, and which process the first one is; who else has the port is no netplugin.
func TestASecondNetpluginSaysThatOneRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	begin := func() error {
		own, err := bePresent(path)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		return mayListen(t.Context(), taken.Addr().String(), own)
	}
	if err := begin(); err == nil || !strings.HasPrefix(err.Error(), "node REST server: another program than netplugin has the port: listen tcp 127.0.0.1:") {
		t.Errorf("beside another program: %v", err)
	}

	first := exec.Command("flock", "-s", path, "cat") // holds the lock as a netplugin does
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		_ = in.Close()
		_ = first.Wait() // it ends with its input
	}
	defer stop()
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it has the lock
		t.Fatal(err)
	}
	want := fmt.Sprintf("another netplugin runs on this node (process %d), nothing was changed: listen tcp 127.0.0.1:", first.Process.Pid)
	if err := begin(); !fault.Is(err, fault.Conflict) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("beside another netplugin: %v\nwant %s", err, want)
	}
	if taken.Close() != nil {
		t.Fatal("the port stays taken")
	}
	testkit.Eventually(t, 10*time.Second, "the next netplugin begins, whoever holds the lock", func() bool { return begin() == nil })
}
