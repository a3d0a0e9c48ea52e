package hostaccess

import (
	"context"
	"os/exec"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// inTheWay names a chain of others that drops what the host forwards. A packet passes
// the chains of all tables, so ours cannot let it through. A chain that speaks of our
// interface is taken to let it through: somebody has thought of it.
func (r *rules) inTheWay(ctx context.Context) error {
	now := generation()
	if now != 0 && now == r.passed {
		return nil
	}
	chains, err := exec.CommandContext(ctx, "nft", "list", "chains").Output()
	if err != nil {
		return fault.New(fault.Unavailable, "nft list chains: %w", err)
	}
	for _, c := range forwardDroppers(string(chains)) {
		rules, err := exec.CommandContext(ctx, "nft", "list", "chain", c.family, c.table, c.name).Output()
		if err != nil {
			if generation() != now {
				continue // it may have gone meanwhile: the next look finds out
			}
			return fault.New(fault.Unavailable, "nft list chain %s %s %s: %w", c.family, c.table, c.name, err)
		}
		if !strings.Contains(string(rules), outsideLink) {
			return fault.New(fault.Conflict, "chain %s of nftables table %s %s drops what is forwarded: let pass there what comes from %s and what goes to it",
				c.name, c.family, c.table, outsideLink)
		}
	}
	r.passed = now
	return nil
}

type foreignChain struct{ family, table, name string }

// forwardDroppers finds the base chains with hook forward and policy drop.
func forwardDroppers(chains string) (found []foreignChain) {
	var at foreignChain
	for line := range strings.Lines(chains) {
		words := strings.Fields(line)
		switch {
		case len(words) > 2 && words[0] == "table":
			at = foreignChain{family: words[1], table: words[2]}
		case len(words) > 1 && words[0] == "chain":
			at.name = words[1]
		case strings.Contains(line, "hook forward") && strings.Contains(line, "policy drop"):
			found = append(found, at)
		}
	}
	return found
}
