package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

// clusterPolicies runs the conformance tests of ClusterNetworkPolicy, one by one: half of their
// time they wait for what is to be dropped.
func clusterPolicies(t *testing.T, c *cluster.Cluster) {
	ran, out, err := runConformance(t.Context(), c)
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

// conformanceLine is what a test of the suite ends with.
var conformanceLine = regexp.MustCompile(`(?m)^    --- (PASS|FAIL|SKIP): TestConformance/(\w+) `)

func runConformance(ctx context.Context, c *cluster.Cluster) (verdicts map[string]string, out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, upstreamLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "k8s", "cnp.test"), "-test.v", "-test.skip", "/^("+strings.Join(clusterPolicyLeftOut, "|")+")$")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	cmd.WaitDelay = time.Minute
	raw, runErr := cmd.CombinedOutput()
	verdicts = map[string]string{}
	for _, line := range conformanceLine.FindAllStringSubmatch(string(raw), -1) {
		verdicts[line[2]] = line[1]
	}
	var exit *exec.ExitError
	if len(verdicts) == 0 || runErr != nil && !errors.As(runErr, &exit) {
		return nil, "", fmt.Errorf("no test ran: %w: %s", runErr, tail(string(raw)))
	}
	return verdicts, string(raw), nil // why one failed is in its output
}
