package testbed

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Snapshot is everything a cluster may leave behind, by what it is and where.
type Snapshot map[string]string

// leftovers are the commands whose output must be the same before a story and
// after it. The name server's link and namespace are the node's, and may come with
// the first pod after an upgrade.
var leftovers = []struct {
	what string
	args []string
}{
	{"ports", []string{"sh", "-ec", "for b in $(ovs-vsctl --timeout=10 list-br); do ovs-vsctl --timeout=10 list-ports $b; done | sed /^dns-/d"}},
	{"links", []string{"sh", "-c", "ls /sys/class/net | sed /^dns-/d | sort"}},
	{"namespaces", []string{"sh", "-c", "ip netns list | sed /^contiv-dns-/d"}},
	{"attachments", []string{"sh", "-c", "find /var/lib/contiv/cni -type f ! -name boots 2>/dev/null | sort"}},
}

// generation is the part of a flow that a restart of an agent changes.
var generation = regexp.MustCompile(`cookie=0x[0-9a-f]+, `)

// Flows lists the flows of our bridges, one per line, without counters and
// without what a restart of an agent changes.
func (n *Node) Flows(ctx context.Context) (string, error) {
	bridges := []string{"contivVxlanBridge"}
	if n.uplinks > 0 {
		bridges = append(bridges, "contivVlanBridge")
	}
	var all strings.Builder
	for _, bridge := range bridges {
		out, err := n.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", bridge)
		if err != nil {
			return "", err
		}
		all.WriteString(generation.ReplaceAllString(out, ""))
	}
	return all.String(), nil
}

// Snapshot takes down what is there: ports, flows, links, namespaces and
// attachments of every node, and the keys of the store.
func (b *Bed) Snapshot(ctx context.Context) (Snapshot, error) {
	all := Snapshot{}
	for _, n := range b.Nodes {
		for _, l := range leftovers {
			out, err := n.Run(ctx, l.args...)
			if err != nil {
				return nil, err
			}
			all[l.what+" of "+n.Name] = out
		}
		flows, err := n.Flows(ctx)
		if err != nil {
			return nil, err
		}
		all["flows of "+n.Name] = flows
	}
	for _, root := range []string{"state", "oper", "obj", "master"} {
		out, err := b.Keys(ctx, "/contiv.io/"+root+"/")
		if err != nil {
			return nil, err
		}
		all["keys below "+root] = out
	}
	return all, nil
}

// Keys lists the keys of the store below a prefix with a digest of their
// values: equal outputs mean equal content.
func (b *Bed) Keys(ctx context.Context, prefix string) (string, error) {
	n := b.Nodes[0]
	files := n.StoreFiles()
	ring := ""
	if b.sealed {
		ring = filepath.Dir(files.Key)
	}
	return n.Run(ctx, n.Tool("probe"), "keys", "-ca", files.CA, "-cert", files.Cert, "-key", files.Key, "-keyring", ring, strings.Join(b.EtcdEndpoints(), ","), prefix)
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
