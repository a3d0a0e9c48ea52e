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

// kube-proxy, where a cluster runs it or ran it, has rules for services as well. Netplugin's precede them
// (leadPriority), except for cluster addresses: these are routed to the switch, and before that kube-proxy's rules
// translate them, or reject those without backends. So processes of the host reach the backends that kube-proxy
// knows or, if it has ended and its rules remain, those that it knew then.

// KubeProxy finds kube-proxy's rules.
type KubeProxy struct {
	mu    sync.Mutex
	at    uint32 // the generation of the last search; 0: none yet
	found string
}

// Find names the nftables tables that have rules of kube-proxy, also by iptables-nft; empty: there are none.
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

// ofKubeProxy reports whether a chain is one that kube-proxy always has: in mode nftables in tables of its own, in
// other modes in those of iptables, where kubelet has chains with the same prefix.
func (c foreignChain) ofKubeProxy() bool {
	return c.table == "kube-proxy" || c.name == "KUBE-SERVICES"
}
