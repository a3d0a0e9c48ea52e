package uplink_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/test/testkit"
)

// asProcess, in the environment, makes the test binary a process that keeps uplinks, or gives them back, and is
// killed before a step: the number of the step, the directories of the switch, the namespace and the record,
// "keep" or "undo", and the uplinks.
const asProcess = "CONTIV_TEST_UPLINK"

func TestMain(m *testing.M) {
	if what := os.Getenv(asProcess); what != "" {
		if err := process(strings.Fields(what)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func process(args []string) error {
	left, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	ns, err := netns.GetFromName(args[2])
	if err != nil {
		return err
	}
	config := uplink.Config{RunDir: args[1], Serves: pods, Links: args[5:], NetNS: &ns, StateDir: args[3], Log: testkit.Quiet()}
	config.Step = func(what string) {
		if left--; left == 0 {
			fmt.Println(what)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	if args[4] == "undo" {
		return uplink.Undo(context.Background(), config)
	}
	b, err := uplink.New(config)
	if err != nil {
		return err
	}
	return b.Run(context.Background())
}

// killed runs such a process for a task, until it is killed before a step, or done is true without one, or it
// ends. It returns the step.
func (n *node) killed(what string, step int, done func() bool) string {
	n.t.Helper()
	var out strings.Builder
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", fmt.Sprintf("%s=%d %s %s %s %s", asProcess, step, n.RunDir, n.Netns, n.state, what))
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	n.eventually(fmt.Sprintf("%s is killed before step %d, or done", what, step), func() bool {
		select {
		case err = <-ended:
			return true
		default:
		}
		if !done() {
			return false
		}
		_ = cmd.Process.Kill() // it may just have ended
		<-ended
		return true
	})
	if stopped := strings.TrimSpace(out.String()); stopped != "" {
		return stopped
	}
	if err != nil {
		n.t.Fatalf("%s: %v", what, err)
	}
	return ""
}

// At whatever step the process that moves the host to the bridge, or back, is killed, the host has its addresses,
// or the record has them; and the next process finishes the work.
func TestWhoIsKilledWhileTheHostMovesLeavesItsAddresses(t *testing.T) {
	n := aHost(t)
	before := n.picture()
	onTheBridge := strings.Split(onBridge(before), "/proc")[0]
	var steps []string
	for step := 1; ; step++ {
		kept := n.killed("keep up0", step, func() bool { return strings.HasPrefix(n.picture(), onTheBridge) })
		n.hasAddresses(fmt.Sprintf("kept until %q, step %d", kept, step))
		_, stop := n.keep("", "up0")
		n.eventually("the host is on the bridge", func() bool { return strings.HasPrefix(n.picture(), onTheBridge) })
		stop()
		undone := n.killed("undo", step, func() bool { return false })
		n.hasAddresses(fmt.Sprintf("undone until %q, step %d", undone, step))
		if err := uplink.Undo(t.Context(), n.config("")); err != nil {
			t.Fatal(err)
		}
		n.hasBack(before)
		if kept == "" && undone == "" {
			break
		}
		steps = append(steps, kept, undone)
	}
	t.Logf("killed before: %q", steps)
	n.hostReaches("198.51.100.1")
}

// The same holds when a link that is no longer an uplink gets back what the host had there, while the host stays
// on the bridge with what it had at another link.
func TestWhoIsKilledWhileALinkGetsBackWhatItHadLeavesIt(t *testing.T) {
	n := aHost(t)
	n.Exec("ip", "link", "set", "up1", "up")
	n.Exec("ip", "address", "add", "192.0.2.7/28", "dev", "up1")
	before := n.picture()
	back := func() string { // what the host has at up0
		var lines []string
		for line := range strings.Lines(n.picture()) {
			if !strings.Contains(line, "up1") && !strings.Contains(line, uplink.DefaultBridge) {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	atUp0 := back()
	var steps []string
	for step := 1; ; step++ {
		_, stop := n.keep(uplink.ActiveBackup, "up0", "up1")
		n.eventually("the host is on the bridge", func() bool { return back() != atUp0 && !strings.Contains(n.Exec("ip", "address"), "scope global up") })
		stop()
		killed := n.killed("keep up1", step, func() bool { return back() == atUp0 })
		_, stop = n.keep("", "up1")
		n.eventually(fmt.Sprintf("after a kill before %q, step %d, up0 has what the host had there:\n%s", killed, step, before), func() bool { return back() == atUp0 })
		stop()
		if killed == "" {
			break
		}
		steps = append(steps, killed)
	}
	t.Logf("killed before: %q", steps)
}

// hasAddresses expects the host to have its addresses, or the record.
func (n *node) hasAddresses(when string) {
	n.t.Helper()
	record, _ := os.ReadFile(n.record()) // there may be none
	known := n.Exec("ip", "-o", "address", "show") + string(record)
	if !strings.Contains(known, "198.51.100.7") || !strings.Contains(known, "2001:db8:7::7") {
		n.t.Fatalf("%s: the host's addresses are lost:\n%s", when, n.picture())
	}
}
