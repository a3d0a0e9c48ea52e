package suite

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// clusterPolicyTests are those of the conformance tests of ClusterNetworkPolicy (network-policy-api
// v0.2.0) that pass; clusterPolicyLeftOut probe SCTP, which this kernel does not have.
var (
	clusterPolicyTests = []string{
		"CNPAdminTierEgressNamedPort", "CNPAdminTierEgressTCP", "CNPAdminTierEgressUDP",
		"CNPAdminTierIngressNamedPort", "CNPAdminTierIngressTCP", "CNPAdminTierIngressUDP",
		"CNPAdminTierIntegration", "CNPAdminTierPriorityField",
		"CNPBaselineTierEgressNamedPort", "CNPBaselineTierEgressTCP", "CNPBaselineTierEgressUDP",
		"CNPBaselineTierIngressNamedPort", "CNPBaselineTierIngressTCP", "CNPBaselineTierIngressUDP",
	}
	clusterPolicyLeftOut = []string{
		"CNPAdminTierEgressInlineCIDRPeers", "CNPAdminTierEgressNodePeers", "CNPAdminTierEgressSCTP", "CNPAdminTierGress", "CNPAdminTierIngressSCTP",
		"CNPBaselineTierEgressInlineCIDRPeers", "CNPBaselineTierEgressNodePeers", "CNPBaselineTierEgressSCTP", "CNPBaselineTierGress", "CNPBaselineTierIngressSCTP",
	}
)

// clusterPolicies runs the conformance tests of ClusterNetworkPolicy, one by one: half of their time they wait for
// packets that have to be dropped.
func clusterPolicies(t *testing.T, c *cluster.Cluster) {
	ran, out, err := runProgram(t, c, "cnp.test", "-test.skip", "/^("+strings.Join(clusterPolicyLeftOut, "|")+")$")
	if err != nil {
		t.Fatal(err)
	}
	for name, verdict := range ran {
		if verdict != "PASS" {
			t.Errorf("%s: %s", name, verdict)
		}
	}
	if got := slices.Sorted(maps.Keys(ran)); !slices.Equal(got, clusterPolicyTests) {
		t.Errorf("these ran: %q, want %q", got, clusterPolicyTests)
	}
	if t.Failed() {
		t.Log(tail(out))
	}
}
