package history

import (
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
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// members is the number of netmasters.
const members = 3

// leaderTTL is the lease of the leadership, so the time to wait after a leader was killed.
const leaderTTL = 4 * time.Second

// Cluster is a set of netmaster processes, each with a member of the store or all with a separate store.
type Cluster struct {
	binary string
	dir    string
	store  string // the URL of a separate store; empty: each has a member
	nodes  []*node
}

// node is one netmaster; its process is replaced when it is restarted.
type node struct {
	name                  string
	address, client, peer string // host:port
	cmd                   *exec.Cmd
	done                  <-chan struct{}
}

// Build builds netmaster from the source tree, beside the binary of the test: if it is up to date the next test
// does not link it again.
func Build(ctx context.Context) (binary string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	binary = filepath.Join(filepath.Dir(self), "netmaster")
	build := exec.CommandContext(ctx, "go", "build", "-race="+strconv.FormatBool(raced()), "-o", binary, "github.com/contiv/netplugin/cmd/netmaster")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build netmaster: %w\n%s", err, out)
	}
	return binary, nil
}

// NewCluster prepares three netmasters with logs and data in dir. Without store, each will have a member of an
// embedded one.
func NewCluster(binary, dir, store string) *Cluster {
	c := &Cluster{binary: binary, dir: dir, store: store}
	for i := range members {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("m%d", i),
			address: testkit.FreeAddress(), client: testkit.FreeAddress(), peer: testkit.FreeAddress()})
	}
	return c
}

// raced reports whether this test runs with the race detector: netmaster is then built with it, too.
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
	store := []string{"--insecure", "--embedded-etcd", filepath.Join(c.dir, n.name), "--embedded-etcd-name", n.name,
		"--embedded-etcd-client-url", "http://" + n.client, "--embedded-etcd-peer-url", "http://" + n.peer,
		"--embedded-etcd-peers", strings.Join(peers, ","), "--embedded-etcd-unsafe-no-fsync"}
	if c.store != "" {
		store = []string{"--etcd-endpoints", c.store}
	}
	n.cmd = exec.Command(c.binary, append(store, "--mode", "cni", "--netmode", "vxlan", "--fwdmode", "routing",
		"--leader-ttl", leaderTTL.String(), "--external-address", n.address, "--internal-address", n.address)...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.done, err = testkit.Start(n.cmd) // its result is in the log
	return err
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

// Leader waits until a netmaster reports that it is the leader.
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

// role returns the role that a netmaster reports, empty if it is not ready.
func role(ctx context.Context, n *node) string {
	text, err := ask(ctx, "http://"+n.address+"/readyz")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// ask returns the body of a successful response, which must arrive within a second.
func ask(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(text), err
}

// Stores returns the URLs of the store, or of all its members.
func (c *Cluster) Stores() []string {
	if c.store != "" {
		return []string{c.store}
	}
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, "http://"+n.client)
	}
	return urls
}

func (c *Cluster) logFile(n *node) string { return filepath.Join(c.dir, n.name+".log") }
