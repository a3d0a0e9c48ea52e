package hostaccess

import (
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

func TestRulesOfKubernetesOwnProxyAreFound(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	var k KubeProxy
	for _, step := range []struct{ nft, want string }{
		{"add table ip theirs", ""},
		{"add table ip filter; nft add chain ip filter KUBE-FIREWALL; nft add table ip mangle; nft add chain ip mangle KUBE-KUBELET-CANARY", ""}, // kubelet's
		{"add table ip6 kube-proxy; nft add chain ip6 kube-proxy services", "table ip6 kube-proxy"},
		{"add table ip nat; nft add chain ip nat KUBE-SERVICES; nft add chain ip nat KUBE-NODEPORTS", "table ip nat, table ip6 kube-proxy"},
		{"delete table ip6 kube-proxy", "table ip nat"},
		{"delete chain ip nat KUBE-SERVICES", ""},
	} {
		run(t, "nft "+step.nft)
		for range 2 { // the second call runs no command
			if found, err := k.Find(t.Context()); found != step.want || err != nil {
				t.Errorf("nft %s: found %q, %v, want %q", step.nft, found, err, step.want)
			}
		}
	}
}
