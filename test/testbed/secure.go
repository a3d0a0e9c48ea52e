package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// A secure bed is an enforced cluster. The netmaster of the first node founds it; the other netmasters and all
// agents join with a token created by root of that node.

// rootSocket is the socket of a node's netmaster for root.
const rootSocket = "unix:///run/contiv/netmaster.sock"

// netctlUnreachable is netctl's exit code if no server answers, or there is no leader.
const netctlUnreachable = 2

// tokenFile returns the file with a node's join token for a role.
func tokenFile(role string) string { return "/run/contiv/token-" + role }

// foundation returns the setting by which the node's netmaster founds or joins its cluster.
func (n *Node) foundation() string {
	switch {
	case !n.bed.secure:
		return "CONTIV_NETMASTER_INSECURE=true"
	case n == n.bed.Nodes[0]:
		return "CONTIV_NETMASTER_SECURE=true"
	}
	return "CONTIV_NETMASTER_JOIN_TOKEN_FILE=" + tokenFile("master")
}

// NetmasterURL returns the URL by which programs on the node reach its netmaster with all rights.
func (n *Node) NetmasterURL() string {
	if n.bed.secure {
		return rootSocket
	}
	return "http://" + n.At(9999)
}

// Netctl runs netctl on the node, against its own netmaster.
func (n *Node) Netctl(ctx context.Context, args ...string) (string, error) {
	return n.netctl(ctx, n.NetmasterURL(), args)
}

func (n *Node) netctl(ctx context.Context, at string, args []string) (string, error) {
	return n.Run(ctx, append([]string{filepath.Join(n.bed.Bin, "netctl"), "--netmaster", at}, args...)...)
}

// giveScript writes a token to a file that a user owns.
const giveScript = `mkdir -p "$(dirname "$2")"; echo "$1" | install -o "$3" -m 600 /dev/stdin "$2"`

// owner returns the user of the daemons of a role.
func (b *Bed) owner(role string) string {
	if b.confined && role == "master" {
		return "contiv"
	}
	return "root"
}

// GiveTokens waits for the netmaster that founds a secure bed, and gives each node tokens for its daemons.
func (b *Bed) GiveTokens(ctx context.Context) error {
	for _, role := range []string{"master", "node"} {
		founder := b.Nodes[0]
		token, err := founder.retry(ctx, filepath.Join(b.Bin, "netctl"), "--netmaster", rootSocket, "token", "create", "--role", role, "-q")
		if err != nil {
			return fmt.Errorf("%s: no token for a %s, see %s: %w", founder.Name, role, founder.LogFile("netmaster"), err)
		}
		for _, n := range b.Nodes {
			if _, err := n.Run(ctx, "sh", "-ec", giveScript, "sh", strings.TrimSpace(token), tokenFile(role), b.owner(role)); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitVotes waits until every netmaster of a secure bed is a voting member of the store: before that the store
// does not survive the end of the founder.
func (b *Bed) waitVotes(ctx context.Context) error {
	return within(ctx, startLimit, func() error {
		status, err := b.status(ctx)
		if err == nil && (len(status.Masters) < len(b.Nodes) || len(status.Store.Learners) > 0) {
			err = fmt.Errorf("%d of %d netmasters are registered, members of the store without a vote: %q", len(status.Masters), len(b.Nodes), status.Store.Learners)
		}
		return err
	})
}

// secureInfo returns Info as root.
func (b *Bed) secureInfo(ctx context.Context) (ClusterInfo, error) {
	status, err := b.status(ctx)
	return ClusterInfo{LeaderIP: status.Leader}, err
}

// status returns netctl status as root.
func (b *Bed) status(ctx context.Context) (status contivmodel.Status, err error) {
	out, err := b.Netctl(ctx, "status", "-o", "json")
	if err != nil {
		return status, err
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return status, fmt.Errorf("netctl status: %w", err)
	}
	return status, nil
}

// NetmasterURL returns the URL by which programs on a node reach a netmaster with all rights: its own one in a
// secure bed, else any.
func (b *Bed) NetmasterURL() string {
	if b.secure {
		return rootSocket
	}
	return strings.Join(b.MasterURLs(), ",")
}
