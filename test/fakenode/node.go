package fakenode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/testkit"
)

// patience is the time limit for a node to reach an expected state.
const patience = time.Minute

// HostLabel is the name of the node.
const HostLabel = "node1"

// Node is a node's cluster, switch and directories; servers are started and stopped on it.
type Node struct {
	Cluster *Cluster
	Switch  *Switch
	Dir     string
}

// NewNode creates a node with two networks of tenant default: default-net, dual stack, and six, IPv6 only; and one
// of tenant blue: web, with group front.
func NewNode(t testing.TB) *Node {
	t.Helper()
	node, err := OpenNode(t.TempDir())
	if err == nil {
		err = errors.Join(
			node.Cluster.AddNetwork("default", "default-net", netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd01::/64")),
			node.Cluster.AddNetwork("default", "six", netip.Prefix{}, netip.MustParsePrefix("fd06::/64")),
			node.Cluster.AddNetwork("blue", "web", netip.MustParsePrefix("10.2.0.0/29"), netip.Prefix{}),
			node.Cluster.AddGroup("blue", "front"),
		)
	}
	if err == nil {
		node.Switch, err = NewSwitch(node.Cluster)
	}
	if err != nil {
		t.Fatalf("make node: %v", err)
	}
	t.Cleanup(func() {
		if err := node.Switch.Remove(); err != nil {
			t.Errorf("remove switch: %v", err)
		}
	})
	return node
}

// OpenNode opens the node of another process by its directory.
func OpenNode(dir string) (*Node, error) {
	cluster := OpenCluster(filepath.Join(dir, "cluster.json"))
	sw, err := NewSwitch(cluster)
	return &Node{Cluster: cluster, Switch: sw, Dir: dir}, err
}

// Socket returns the path of the server's socket.
func (n *Node) Socket() string { return filepath.Join(n.Dir, "run", "cni.sock") }

// StateDir returns the directory of the server's checkpoints.
func (n *Node) StateDir() string { return filepath.Join(n.Dir, "cni") }

// Config returns the configuration of a server on this node, with short timeouts.
func (n *Node) Config() k8splugin.Config {
	return k8splugin.Config{
		SocketPath: n.Socket(),
		StateDir:   n.StateDir(),
		Mode:       k8splugin.CNI,
		HostLabel:  HostLabel,
		Master:     n.Cluster,
		Datapath:   n.Switch,
		Ports:      n.Switch.Ports,
		Log:        testkit.Quiet(),
		Limits: k8splugin.Limits{
			Add:         time.Minute,
			Ready:       200 * time.Millisecond,
			RetryMin:    5 * time.Millisecond,
			RetryMax:    50 * time.Millisecond,
			PendingScan: 20 * time.Millisecond,
			Reconcile:   20 * time.Millisecond,
		},
	}
}

// Start runs a server until stop is called or the test ends.
func (n *Node) Start(t testing.TB, change ...func(*k8splugin.Config)) (stop func()) {
	t.Helper()
	config := n.Config()
	for _, c := range change {
		c(&config)
	}
	server, err := k8splugin.New(config)
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	return n.Run(t, server)
}

// Run runs a given server until stop is called or the test ends.
func (n *Node) Run(t testing.TB, server *k8splugin.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
	}
	t.Cleanup(stop)
	n.AwaitServer(t)
	return stop
}

// AwaitServer waits until a server answers.
func (n *Node) AwaitServer(t testing.TB) {
	t.Helper()
	Eventually(t, "the server listens", func() bool {
		conn, err := net.Dial("unix", n.Socket())
		return err == nil && conn.Close() == nil
	})
}

// Do sends a request as contivk8s does. The error of a refused request is a *types.Error.
func (n *Node) Do(r cniwire.Request) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return n.Post(cniwire.PathV2, body)
}

// Post sends any body to any path, and returns the answer.
func (n *Node) Post(path string, body []byte) ([]byte, error) {
	var dialer net.Dialer
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", n.Socket())
		},
	}}
	response, err := client.Post("http://contiv"+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusOK {
		return answer, err
	}
	refusal := &types.Error{}
	if err := json.Unmarshal(answer, refusal); err != nil || refusal.Msg == "" {
		return nil, errors.New(strings.TrimSpace(response.Status + " " + string(answer)))
	}
	return nil, refusal
}

// Leftovers returns the names of all traces of attachments: ports, endpoints and files. A node without containers
// has none.
func (n *Node) Leftovers(t testing.TB) []string {
	t.Helper()
	var left []string
	for _, p := range n.Switch.Ports() {
		left = append(left, "port "+p.HostLink+" of "+p.EndpointID)
	}
	endpoints, err := n.Cluster.Endpoints()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range endpoints {
		left = append(left, "endpoint "+id)
	}
	err = filepath.WalkDir(n.StateDir(), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != attachment.BootsFile {
			left = append(left, "file "+path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return left
}

// NothingLeft waits until no attachment has left traces.
func (n *Node) NothingLeft(t testing.TB) {
	t.Helper()
	var left []string
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if testkit.Until(ctx, "nothing is left", func() bool { left = n.Leftovers(t); return len(left) == 0 }) != nil {
		t.Errorf("left behind:\n\t%s", strings.Join(left, "\n\t"))
	}
}

// Eventually waits for a condition and fails the test if it does not become true.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, condition)
}
