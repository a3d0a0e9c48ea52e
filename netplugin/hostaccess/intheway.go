package hostaccess

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// inTheWay returns an error that names a foreign chain that drops forwarded packets. A packet has to pass the
// chains of all tables, so netplugin's cannot prevent that. A chain that mentions the egress interface, or calls
// one that does, is assumed to accept its packets: the administrator has configured it for them.
func (r *rules) inTheWay(ctx context.Context) error {
	now := generation()
	if now != 0 && now == r.passed {
		return nil
	}
	listed, err := exec.CommandContext(ctx, "nft", "list", "chains").Output()
	if err != nil {
		return fault.New(fault.Unavailable, "nft list chains: %w", err)
	}
	chains := foreignChains(string(listed))
	for _, c := range slices.SortedFunc(maps.Keys(chains), foreignChain.compare) {
		passes, err := c.passes(ctx, chains)
		if err != nil {
			if generation() != now {
				continue // it may have been removed meanwhile: the next check decides
			}
			return err
		}
		if !passes {
			return fault.New(fault.Conflict, "chain %s of nftables table %s %s drops what is forwarded: let pass there what comes from %s and what goes to it",
				c.name, c.family, c.table, outsideLink)
		}
	}
	r.passed = now
	return nil
}

type foreignChain struct{ family, table, name string }

func (c foreignChain) compare(o foreignChain) int {
	return cmp.Or(cmp.Compare(c.family, o.family), cmp.Compare(c.table, o.table), cmp.Compare(c.name, o.name))
}

// passes reports whether a chain accepts forwarded packets, or mentions the egress interface.
func (c foreignChain) passes(ctx context.Context, chains map[foreignChain]hooked) (bool, error) {
	base := chains[c]
	if !base.forwards {
		return true, nil
	}
	rules, err := c.list(ctx)
	if err != nil {
		return false, err
	}
	verdict, err := c.decides(ctx, rules, chains, map[foreignChain]bool{c: true})
	if err != nil || verdict == accepts || verdict == "" && !base.drops {
		return err == nil, err
	}
	return c.mentionsInterface(ctx, rules, chains, map[foreignChain]bool{c: true})
}

// hooked is the hook and policy of a chain.
type hooked struct {
	forwards bool // hook forward
	drops    bool // policy drop
}

// foreignChains parses a list of chains, without netplugin's own.
func foreignChains(list string) map[foreignChain]hooked {
	found := map[foreignChain]hooked{}
	var at foreignChain
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		switch {
		case len(words) > 2 && words[0] == "table":
			at = foreignChain{family: words[1], table: words[2]}
		case at.family == "inet" && at.table == tableName:
		case len(words) > 1 && words[0] == "chain":
			at.name = words[1]
			found[at] = hooked{}
		case strings.Contains(line, "hook forward") && at.family != "bridge": // hook of bridged frames
			found[at] = hooked{forwards: true, drops: strings.Contains(line, "policy drop")}
		}
	}
	return found
}

func (c foreignChain) list(ctx context.Context) (string, error) {
	var unknown bytes.Buffer
	cmd := exec.CommandContext(ctx, "nft", "list", "chain", c.family, c.table, c.name)
	cmd.Stderr = &unknown
	rules, err := cmd.Output()
	if err != nil {
		return "", fault.New(fault.Unavailable, "nft list chain %s %s %s: %w", c.family, c.table, c.name, err)
	}
	if notShown.Match(unknown.Bytes()) {
		return gap.ReplaceAllString(string(rules), ""), nil
	}
	return string(rules), nil
}

// nft(8) shows some conditions of iptables(8) only if it has the libraries of iptables. Without them, as in the
// image, it omits the condition and leaves a gap: a rule without other conditions looks unconditional. Rules that
// begin with such a gap are removed from the listing; a gap further on in a rule is not recognised.
var (
	notShown = regexp.MustCompile(`(?m)^XT match .* not found`)
	gap      = regexp.MustCompile(`(?m)^\t\t +.*\n`)
)

// aboutAll matches an unconditional rule with a verdict, or a jump to another chain; it may also count and log.
var aboutAll = regexp.MustCompile(`^(?:counter(?: packets \d+ bytes \d+)? |log(?: prefix "[^"]*"| level \w+| flags [a-z, ]+?| group \d+)* )*(?:(accept|drop|reject)\b|(jump|goto) (\S+))`)

// accepts is the verdict that accepts.
const accepts = "accept"

// decides returns the verdict of the unconditional rules of a chain and of the chains that they jump to; empty:
// none. asked has the chains already visited.
func (c foreignChain) decides(ctx context.Context, rules string, chains map[foreignChain]hooked, asked map[foreignChain]bool) (verdict string, err error) {
	for line := range strings.Lines(rules) {
		all := aboutAll.FindStringSubmatch(strings.TrimSpace(line))
		if all == nil {
			continue
		}
		if verdict = all[1]; verdict != "" {
			return verdict, nil
		}
		next := foreignChain{c.family, c.table, all[3]}
		if _, there := chains[next]; there && !asked[next] {
			asked[next] = true
			rules, err := next.list(ctx)
			if err != nil {
				return "", err
			}
			if verdict, err = next.decides(ctx, rules, chains, asked); verdict != "" || err != nil {
				return verdict, err
			}
		}
		if all[2] == "goto" {
			return "", nil
		}
	}
	return "", nil
}

// calls matches calls of other chains in rules.
var calls = regexp.MustCompile(`\b(?:jump|goto) ([^\s,}]+)`)

// mentionsInterface reports whether the rules of a chain, or of a chain that they call, mention the egress
// interface. asked has the chains already visited.
func (c foreignChain) mentionsInterface(ctx context.Context, rules string, chains map[foreignChain]hooked, asked map[foreignChain]bool) (bool, error) {
	if strings.Contains(rules, outsideLink) {
		return true, nil
	}
	for _, call := range calls.FindAllStringSubmatch(rules, -1) {
		next := foreignChain{c.family, c.table, call[1]}
		if _, there := chains[next]; !there || asked[next] {
			continue
		}
		asked[next] = true
		rules, err := next.list(ctx)
		if err != nil {
			return false, err
		}
		if speaks, err := next.mentionsInterface(ctx, rules, chains, asked); speaks || err != nil {
			return speaks, err
		}
	}
	return false, nil
}
