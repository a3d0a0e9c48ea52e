// Package suite runs Kubernetes' own network tests against a cluster whose only network are our daemons. It needs
// the results of `make k8s-build`, and minutes: `make e2e-k8s`.
package suite

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
	"github.com/contiv/netplugin/test/testkit"
)

// part is a set of upstream tests, by regular expressions over their names.
type part struct {
	name        string
	focus, skip string
	want        int  // the number of tests, so that none goes missing by a change of name
	short       bool // also of the short form, which runs after every change
}

// parts are those that pass; leftOut has the others, with the reasons.
var parts = []part{
	{name: "pods and nodes reach pods", focus: `Granular Checks: Pods should function|NoSNAT`, skip: `SCTP|DualStack`, want: 5, short: true},
	{name: "services", focus: `\[sig-network\] (Services|Service endpoints latency)`, skip: `SCTP|DualStack|Disruptive|Serial`, want: 49},
	{name: "services, one by one", focus: `Granular Checks: Services`, skip: `SCTP|DualStack|hostNetwork`, want: 16},
	{name: "changes of services", focus: `\[sig-network\] (Conntrack|Connectivity Pod Lifecycle|Service CIDRs|EndpointSlice)|kube-proxy urls`, skip: `SCTP|DualStack|Disruptive|Serial|invalid conntrack state`, want: 18, short: true},
	{name: "the API server", focus: `\[sig-network\] (API Server|Endpoints should|EndpointsController|Proxy version v1)|static URL paths`, want: 11},
	{name: "names", focus: `\[sig-network\] DNS`, skip: `DualStack|Serial|Provider:GCE`, want: 16},
	{name: "policies with peers on all nodes", focus: `Netpol NetworkPolicy between server and client should enforce (egress policy allowing traffic to a server in a different namespace|policy to allow ingress traffic from pods in all namespaces)`, want: 2, short: true},
	{name: "NetworkPolicy", focus: `\[sig-network\] Netpol`, skip: `SCTPConnectivity|Netpol API`, want: 45},
	{name: "SCTP without its module", focus: `SCTP HostPort|basic SCTP service`, want: 2}, // what modules there are, nobody sees: these images have no nsenter
	{name: "host ports", focus: `\[sig-network\] HostPort`, want: 1, short: true},
}

// partsOfLarge are those that want two families, and nodes in zones.
var partsOfLarge = []part{
	{name: "two families", focus: `IPv6DualStack`, skip: `SCTP`, want: 22},
	{name: "zones", focus: `Traffic Distribution|Topology Hints`, want: 7},
}

// partsOfIPv6 are the parts that run again in a cluster without IPv4.
var partsOfIPv6 = []string{"pods and nodes reach pods", "services, one by one", "changes of services", "names", "policies with peers on all nodes", "host ports"}

func TestKubernetesOwnTests(t *testing.T) {
	c := runParts(t, cluster.Config{Nodes: 3}, parts)
	if !clustertest.IsShort() {
		t.Run("ClusterNetworkPolicy", func(t *testing.T) { clusterPolicies(t, c) })
	}
}

func TestKubernetesOwnTestsOfFamiliesAndZones(t *testing.T) {
	runParts(t, cluster.Config{Nodes: 6, DualStack: true, Zones: 3}, partsOfLarge)
}

func TestLongKubernetesOwnTestsWithIPv6Only(t *testing.T) {
	testkit.TakesLong(t)
	var again []part
	for _, p := range parts {
		if slices.Contains(partsOfIPv6, p.name) {
			p.short = false
			again = append(again, p)
		}
	}
	runParts(t, cluster.Config{Nodes: 3, OnlyIPv6: true}, again)
}

// runParts runs those of them that the form has, in a cluster of their own, which it returns. What failed is printed
// once more after the logs of the cluster, which are long.
func runParts(t *testing.T, of cluster.Config, parts []part) *cluster.Cluster {
	isShort := func(p part) bool { return p.short }
	var failed []string
	t.Cleanup(func() {
		if len(failed) > 0 {
			t.Logf("failed:\n%s", strings.Join(failed, "\n"))
		}
	})
	c := clustertest.Up(t, of, slices.ContainsFunc(parts, isShort))
	for _, p := range parts {
		if clustertest.IsShort() && !p.short {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			limit, err := limitOf(t)
			if err != nil {
				failed = append(failed, fmt.Sprintf("%s: %s", p.name, err))
				t.Fatal(err)
			}
			specs, err := runUpstream(t.Context(), c, p, limit, filepath.Join(t.TempDir(), "report.json"))
			defer func() {
				if t.Failed() {
					failed = append(failed, standing(c))
				}
			}()
			if err != nil {
				failed = append(failed, fmt.Sprintf("%s: %.1000s", p.name, err))
				t.Fatal(err)
			}
			var names []string
			slices.SortFunc(specs, func(a, b spec) int { return cmp.Compare(b.RunTime, a.RunTime) })
			for _, s := range specs {
				names = append(names, s.name())
				t.Logf("%5.1f s  %s", s.RunTime.Seconds(), s.name())
				if s.State != "passed" {
					failed = append(failed, fmt.Sprintf("%s: %s after %.0f s: %.300s", s.name(), s.State, s.RunTime.Seconds(), s.Failure.Message))
					t.Errorf("%s: %s: %s\n%s", s.name(), s.State, s.Failure.Message, tail(s.CapturedGinkgoWriterOutput))
				}
			}
			slices.Sort(names)
			if len(names) != p.want {
				t.Errorf("%d tests ran, want %d: %q", len(names), p.want, names)
			}
		})
	}
	return c
}

// standing describes the cluster after a part that failed.
func standing(c *cluster.Cluster) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	nodes, err := c.Kubectl(ctx, "get", "nodes")
	if err != nil {
		nodes += err.Error()
	}
	return fmt.Sprintf("daemons that have ended: %q\n%s", c.Ended(), nodes)
}
