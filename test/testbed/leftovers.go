package testbed

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Snapshot has everything that a cluster may leave behind, by kind and place.
type Snapshot map[string]string

// leftovers is a script for a node. Its output must be the same before and after a story. The name server's link
// and namespace belong to the node, and may be created with the first pod after an upgrade. It is one script,
// since stories call it often, and most of the cost is to enter the machine.
// what an answer costs is to enter the machine.
const leftovers = `
echo "== ports"; ovs-vsctl --timeout=10 --bare --columns=name list port | sed '/^dns-/d; /^$/d'
echo "== links"; ls /sys/class/net | sed /^dns-/d
echo "== namespaces"; ip netns list | sed /^contiv-dns-/d
echo "== attachments"; find /var/lib/contiv/cni -type f ! -name boots 2>/dev/null || :
echo "== flows"; for b; do ovs-ofctl -O OpenFlow13 --no-stats dump-flows "$b"; done`

// generation matches the part of a flow that a restart of an agent changes.
var generation = regexp.MustCompile(`cookie=0x[0-9a-f]+, `)

// Flows lists the flows of netplugin's bridges, one per line, without counters and without what a restart of an
// agent changes.
func (n *Node) Flows(ctx context.Context) (string, error) {
	var all strings.Builder
	for _, bridge := range n.bridges() {
		out, err := n.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", bridge)
		if err != nil {
			return "", err
		}
		all.WriteString(generation.ReplaceAllString(out, ""))
	}
	return all.String(), nil
}

// bridges returns netplugin's bridges.
func (n *Node) bridges() []string {
	if n.uplinks > 0 {
		return []string{"contivVxlanBridge", "contivVlanBridge"}
	}
	return []string{"contivVxlanBridge"}
}

// roots are the parts of the store with data of a cluster.
var roots = []string{"state", "oper", "obj", "master"}

func keysOf(root string) string { return "/contiv.io/" + root + "/" }

// Snapshot records the present state: ports, flows, links, namespaces and attachments of every node, and the keys
// of the store.
func (b *Bed) Snapshot(ctx context.Context) (Snapshot, error) {
	asked, ctx := errgroup.WithContext(ctx)
	nodes := make([]string, len(b.Nodes))
	for i, n := range b.Nodes {
		asked.Go(func() (err error) {
			nodes[i], err = n.Run(ctx, append([]string{"bash", "-ec", "set -o pipefail" + leftovers, "leftovers"}, n.bridges()...)...)
			return err
		})
	}
	var prefixes []string
	for _, root := range roots {
		prefixes = append(prefixes, keysOf(root))
	}
	var keys string
	asked.Go(func() (err error) {
		keys, err = b.Keys(ctx, prefixes...)
		return err
	})
	if err := asked.Wait(); err != nil {
		return nil, err
	}
	all := Snapshot{}
	for i, out := range nodes {
		for _, part := range strings.Split(out, "== ")[1:] {
			what, text, _ := strings.Cut(part, "\n")
			all[what+" of "+b.Nodes[i].Name] = generation.ReplaceAllString(text, "")
		}
	}
	for _, root := range roots {
		all["keys below "+root] = linesOf(keys, keysOf(root))
	}
	return all, nil
}

// linesOf returns the lines with a prefix.
func linesOf(text, prefix string) string {
	var of strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			of.WriteString(line)
		}
	}
	return of.String()
}

// Keys lists the keys of the store below prefixes with a digest of their
// values: equal outputs mean equal content.
func (b *Bed) Keys(ctx context.Context, prefixes ...string) (string, error) {
	n := b.Nodes[0]
	files := n.StoreFiles()
	ring := ""
	if b.sealed {
		ring = filepath.Dir(files.Key)
	}
	probe := []string{n.Tool("probe"), "keys", "-ca", files.CA, "-cert", files.Cert, "-key", files.Key, "-keyring", ring, strings.Join(b.EtcdEndpoints(), ",")}
	return n.Run(ctx, append(probe, prefixes...)...)
}

// Diff lists the lines that are only in one of the snapshots.
func (s Snapshot) Diff(after Snapshot) []string {
	var lines []string
	for what, text := range s {
		old, now := lineSet(text), lineSet(after[what])
		for line := range old {
			if !now[line] {
				lines = append(lines, what+": gone: "+line)
			}
		}
		for line := range now {
			if !old[line] {
				lines = append(lines, what+": new: "+line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func lineSet(text string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		set[line] = true
	}
	return set
}
