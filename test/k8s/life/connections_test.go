package life

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// talks are connections with pods. They stay open on one side when the pods have gone.
type talks struct {
	mu        sync.Mutex
	addresses map[string]bool // of the pods
	open      []net.Conn
}

// talkLimit bounds how long a pod that has its address may take until it answers.
const talkLimit = 10 * time.Second

// begin connects a node with a pod of another node, if it can: what starts the pod may have been killed.
func (k *talks) begin(ctx context.Context, from *testbed.Node, address string) {
	ctx, cancel := context.WithTimeout(ctx, talkLimit)
	defer cancel()
	var conn net.Conn
	if testkit.Poll(ctx, func() (err error) {
		conn, err = from.DialContext(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(podPort)))
		return err
	}) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addresses[address] = true
	k.open = append(k.open, conn)
}

// known is an address in a line of a connection tracker.
var known = regexp.MustCompile(`(?:src|dst)=([0-9.]+)`)

// left tells of connections that a switch tracks although their pods have gone.
func (k *talks) left(ctx context.Context, c *cluster.Cluster) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range c.Nodes {
		out, err := n.Run(ctx, "ovs-appctl", "--timeout=10", "dpctl/dump-conntrack")
		if err != nil {
			return err
		}
		var left []string
		for line := range strings.Lines(out) {
			for _, address := range known.FindAllStringSubmatch(line, -1) {
				if k.addresses[address[1]] {
					left = append(left, line)
					break
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%s tracks %d connections of pods that are gone, such as\n%s", n.Name, len(left), strings.Join(left[:min(len(left), 10)], ""))
		}
	}
	return nil
}

func (k *talks) close() {
	for _, conn := range k.open {
		conn.Close()
	}
}
