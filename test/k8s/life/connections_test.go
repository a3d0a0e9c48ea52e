package life

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// talks are connections with pods. They stay open on one side when the pods have gone.
type talks struct {
	mu        sync.Mutex
	addresses map[string]bool // of the pods
	tried     int             // to open
	open      []net.Conn
	tracked   int // of them, by the nodes of the pods
}

// talkLimit bounds how long a pod that has its address may take until it answers.
const talkLimit = 10 * time.Second

// begin connects a node with a pod of another node, if it can: what starts the pod may have been killed. It
// notes whether the pod's node tracks the connection.
func (k *talks) begin(ctx context.Context, from, node *testbed.Node, address string) {
	ctx, cancel := context.WithTimeout(ctx, talkLimit)
	defer cancel()
	k.mu.Lock()
	k.tried++
	k.mu.Unlock()
	var conn net.Conn
	if testkit.Poll(ctx, func() (err error) {
		conn, err = from.DialContext(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(podPort)))
		return err
	}) != nil {
		return
	}
	lines, err := tracked(ctx, node, map[string]bool{address: true})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addresses[address] = true
	k.open = append(k.open, conn)
	if err == nil && len(lines) > 0 {
		k.tracked++
	}
}

// enough returns an error if too few connections were opened or tracked for the test to mean anything. Some pods
// cannot be reached, as the component that starts them was killed, and some connections end before their node is
// asked.
func (k *talks) enough() error {
	if len(k.open) == 0 || 2*k.tracked <= len(k.open) {
		return fmt.Errorf("%d connections tried, %d open, %d of them tracked: want more than half tracked", k.tried, len(k.open), k.tracked)
	}
	return nil
}

func TestMostConnectionsHaveToBeTracked(t *testing.T) {
	for _, c := range []struct {
		open, tracked int
		enough        bool
	}{{0, 0, false}, {1, 0, false}, {2, 1, false}, {3, 2, true}, {3, 3, true}} {
		k := &talks{open: make([]net.Conn, c.open), tracked: c.tracked}
		if err := k.enough(); (err == nil) != c.enough {
			t.Errorf("%d open, %d tracked: %v", c.open, c.tracked, err)
		}
	}
}

// known is an address in a line of a connection tracker.
var known = regexp.MustCompile(`(?:src|dst)=([0-9.]+)`)

// tracked are the connections with some addresses that the switch of a node tracks.
func tracked(ctx context.Context, n *testbed.Node, addresses map[string]bool) (lines []string, err error) {
	out, err := n.Run(ctx, "ovs-appctl", "--timeout=10", "dpctl/dump-conntrack")
	for line := range strings.Lines(out) {
		if slices.ContainsFunc(known.FindAllStringSubmatch(line, -1), func(found []string) bool { return addresses[found[1]] }) {
			lines = append(lines, line)
		}
	}
	return lines, err
}

// left returns an error if a switch tracks connections of pods that are gone.
func (k *talks) left(ctx context.Context, c *cluster.Cluster) error {
	for _, n := range c.Nodes {
		lines, err := tracked(ctx, n, k.addresses)
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			return fmt.Errorf("%s tracks %d connections of pods that are gone, such as\n%s", n.Name, len(lines), strings.Join(lines[:min(len(lines), 10)], ""))
		}
	}
	return nil
}

func (k *talks) close() {
	for _, conn := range k.open {
		conn.Close()
	}
}
