package timerslack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// TestMain is also the program that sets its slack and reports it.
func TestMain(m *testing.M) {
	set := map[string]func() error{"rerun": Rerun, "threads": SetThreads}[os.Getenv("TIMERSLACK_TEST")]
	if set == nil {
		os.Exit(m.Run())
	}
	if err := report(set); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// report prints the process, its arguments and the slack of each of its threads.
func report(set func() error) error {
	if err := set(); err != nil {
		return err
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	fmt.Println(os.Getpid())
	fmt.Println(strings.Join(os.Args[1:], " "))
	for _, thread := range threads {
		own, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
		if err != nil {
			return err
		}
		fmt.Println(strings.TrimSpace(string(own)))
	}
	return nil
}

// A thread with a real-time policy may get no slack from the kernel: the program goes on and does not run itself for ever.
func TestARealTimeProgramGoesOn(t *testing.T) {
	testkit.NeedsMachine(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chrt", "--rr", "1", program)
	cmd.Env = append(os.Environ(), "TIMERSLACK_TEST=rerun")
	if out, err := cmd.CombinedOutput(); ctx.Err() != nil {
		t.Errorf("it has not ended: %v: %s", err, out)
	}
}

func TestEveryThreadHasTheSlack(t *testing.T) {
	testkit.NeedsMachine(t)
	for _, way := range []string{"rerun", "threads"} {
		t.Run(way, func(t *testing.T) {
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "with", "arguments")
			cmd.Env = append(os.Environ(), "TIMERSLACK_TEST="+way)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			lines := strings.Fields(strings.ReplaceAll(string(out), "with arguments", "with+arguments"))
			if len(lines) < 4 {
				t.Fatalf("it has fewer than two threads, or says less:\n%s", out)
			}
			if lines[0] != strconv.Itoa(cmd.Process.Pid) || lines[1] != "with+arguments" {
				t.Errorf("process %s with %s, started as process %d with two arguments", lines[0], lines[1], cmd.Process.Pid)
			}
			if slices.ContainsFunc(lines[2:], func(own string) bool { return own != strconv.Itoa(slack) }) {
				t.Errorf("slack of its threads %v, want %d ns for each", lines[2:], slack)
			}
		})
	}
}
