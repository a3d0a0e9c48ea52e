package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be netctl itself.
func TestMain(m *testing.M) {
	if os.Getenv("NETCTL_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// A wait for input can be interrupted, and the exit code has the signal.
func TestASignalEndsTheWaitForInput(t *testing.T) {
	for received, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "--netmaster", "https://127.0.0.1:1", "login")
		cmd.Env = append(cmd.Environ(), "NETCTL_TEST_MAIN=1", "NETCTL_CONFIG="+t.TempDir()+"/config.json")
		if _, err := cmd.StdinPipe(); err != nil { // without input
			t.Fatal(err)
		}
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		said := bufio.NewReader(stderr)
		if prompt, err := said.ReadString(':'); err != nil || prompt != "Username:" {
			t.Errorf("prompt %q, %v", prompt, err)
		}
		if err := cmd.Process.Signal(received); err != nil {
			t.Error(err)
		}
		rest, _ := said.ReadString(0)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != code || strings.TrimSpace(rest) != "" {
			t.Errorf("after %v: exit code %d (%v), says %q", received, cmd.ProcessState.ExitCode(), err, rest)
		}
		watchdog.Stop()
	}
}
