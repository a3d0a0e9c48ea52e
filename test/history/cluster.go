package history

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// members is the number of netmasters.
const members = 3

// leaderTTL is how long a killed leader is waited for.
const leaderTTL = 4 * time.Second

// Cluster is a set of netmaster processes, each with a member of the store.
type Cluster struct {
	binary string
	dir    string
	nodes  []*node
}

// node is one netmaster; its process is replaced when it is started again.
type node struct {
	name                  string
	address, client, peer string // host:port
	cmd                   *exec.Cmd
	done                  chan struct{}
}

// StartCluster builds netmaster from the tree and starts three of them.
func StartCluster(ctx context.Context, dir string) (*Cluster, error) {
	c := &Cluster{binary: filepath.Join(dir, "netmaster"), dir: dir}
	build := exec.CommandContext(ctx, "go", "build", "-race="+strconv.FormatBool(raced()), "-o", c.binary, "github.com/contiv/netplugin/cmd/netmaster")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build netmaster: %w\n%s", err, out)
	}
	for i := range members {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("m%d", i),
			address: testkit.FreeAddress(), client: testkit.FreeAddress(), peer: testkit.FreeAddress()})
	}
	return c, nil
}

// raced tells whether this test looks for data races: netmaster does then, too.
func raced() bool {
	info, _ := debug.ReadBuildInfo() // a test has one
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Start starts every netmaster and waits for a leader.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := c.start(n); err != nil {
			return err
		}
	}
	_, err := c.Leader(ctx)
	return err
}

func (c *Cluster) start(n *node) error {
	var peers []string
	for _, other := range c.nodes {
		peers = append(peers, other.name+"=http://"+other.peer)
	}
	log, err := os.OpenFile(c.logFile(n), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy
	n.cmd = exec.Command(c.binary, "--mode", "cni", "--netmode", "vxlan", "--fwdmode", "routing",
		"--leader-ttl", leaderTTL.String(), "--external-address", n.address, "--internal-address", n.address,
		"--embedded-etcd", filepath.Join(c.dir, n.name), "--embedded-etcd-name", n.name,
		"--embedded-etcd-client-url", "http://"+n.client, "--embedded-etcd-peer-url", "http://"+n.peer,
		"--embedded-etcd-peers", strings.Join(peers, ","))
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // how it ended is in the log
	}(n.cmd, n.done)
	return nil
}

// Stop kills what still runs.
func (c *Cluster) Stop() {
	for _, n := range c.nodes {
		if n.cmd != nil && n.cmd.Process != nil {
			_ = n.cmd.Process.Kill() // it may have ended
			<-n.done
		}
	}
}

// Disturb ends the leader with a signal, starts it again and waits until every
// netmaster serves. It tells how long it took until another one led.
func (c *Cluster) Disturb(ctx context.Context, signal syscall.Signal) (takeover time.Duration, err error) {
	n, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := n.cmd.Process.Signal(signal); err != nil {
		return 0, err
	}
	if _, err := c.leaderBut(ctx, n); err != nil {
		return 0, err
	}
	takeover = time.Since(began)
	select {
	case <-n.done:
	case <-ctx.Done():
		return takeover, fmt.Errorf("netmaster %s does not end on %s", n.name, signal)
	}
	if err := c.start(n); err != nil {
		return takeover, err
	}
	return takeover, testkit.Until(ctx, "netmaster "+n.name+" serves again", func() bool { return role(ctx, n) != "" })
}

// Leader waits until a netmaster says that it leads.
func (c *Cluster) Leader(ctx context.Context) (*node, error) { return c.leaderBut(ctx, nil) }

// leaderBut waits for a leader other than one.
func (c *Cluster) leaderBut(ctx context.Context, ended *node) (leader *node, err error) {
	err = testkit.Until(ctx, "a leader", func() bool {
		for _, n := range c.nodes {
			if n != ended && role(ctx, n) == "leader" {
				leader = n
				return true
			}
		}
		return false
	})
	return leader, err
}

// role is what a netmaster says of itself, empty if it is not ready.
func role(ctx context.Context, n *node) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.address+"/readyz", nil)
	if err != nil {
		return ""
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Stores are the URLs of the members of the store.
func (c *Cluster) Stores() []string {
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, "http://"+n.client)
	}
	return urls
}

func (c *Cluster) logFile(n *node) string { return filepath.Join(c.dir, n.name+".log") }

// alarming are words that no netmaster may have logged: repairs, since no
// request leaves intent and state apart, and defects.
var alarming = []string{"repaired:", "cannot be repaired", "plan panicked", "panic:", "corrupt", "DATA RACE"}

// Alarms are the alarming lines of all logs.
func (c *Cluster) Alarms() (lines []string, err error) {
	for _, n := range c.nodes {
		text, err := os.ReadFile(c.logFile(n))
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			for _, word := range alarming {
				if bytes.Contains(line, []byte(word)) {
					lines = append(lines, n.name+": "+strings.TrimSpace(string(line)))
					break
				}
			}
		}
	}
	return lines, nil
}
