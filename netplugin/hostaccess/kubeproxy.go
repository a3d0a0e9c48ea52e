package hostaccess

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/netplugin/utils/fault"
)

// Kubernetes' own proxy, where a cluster had it before us, has rules for services as well. Ours come before them
// (leadPriority), but for cluster addresses: to the host these are a route into the switch, and its proxy, which
// translates them, rejects those that it has not. So processes of the host get there what the proxy knows, and when it
// has ended and nobody has removed its rules, what it knew then.

// KubeProxy finds its rules.
type KubeProxy struct {
	mu    sync.Mutex
	at    uint32 // the generation in which it was looked; 0: not yet
	found string
}

// Find names the tables of nftables that have them, to which most versions of iptables belong; empty: none has.
func (k *KubeProxy) Find(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := generation()
	if now != 0 && now == k.at {
		return k.found, nil
	}
	listed, err := exec.CommandContext(ctx, "nft", "list", "chains").Output()
	if err != nil {
		return "", fault.New(fault.Unavailable, "nft list chains: %w", err)
	}
	var tables []string
	for c := range foreignChains(string(listed)) {
		if c.ofKubeProxy() {
			tables = append(tables, fmt.Sprintf("table %s %s", c.family, c.table))
		}
	}
	slices.Sort(tables)
	k.at, k.found = now, strings.Join(slices.Compact(tables), ", ")
	return k.found, nil
}

// ofKubeProxy tells whether a chain is one that the proxy always has: in its mode nftables in tables of its own, in
// others in those of iptables, where kubelet has chains that begin like it, too.
func (c foreignChain) ofKubeProxy() bool {
	return c.table == "kube-proxy" || c.name == "KUBE-SERVICES"
}
