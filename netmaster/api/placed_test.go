package api

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Under Kubernetes a node gets into a tenant by a pod that the leader has placed there, not by
// asking.
func TestUnderKubernetesANodeHasEndpointsOfItsPods(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.ClusterMode = "kubernetes" })
	b.want("proven:root", "POST", "networks/red:access", `{"tenantName":"red","networkName":"access","encap":"vxlan","nwType":"infra","subnet":"10.9.0.0/24","gateway":"10.9.0.254"}`, 200, "")
	b.joinedAs("h1")
	b.joinedAs("h2")
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: "u1", Tenant: "blue", Network: "web"})
	})
	ask := func(node, tenant, network, container, uid string) string {
		code, answer, _ := b.do("POST", mastercfg.CreateEndpointPath, fmt.Sprintf(`{"TenantName":%q,"NetworkName":%q,"PodUID":%q,"ConfigEP":{"Container":%q,"Host":%q}}`,
			tenant, network, uid, container, node), provenHeader, "node/"+node, "Accept", rest.ProblemType)
		if code == 200 {
			return ""
		}
		return answer
	}
	for name, c := range map[string]struct {
		node, tenant, network, container, uid string
		refused                               bool
	}{
		"a pod that is placed":       {"h1", "blue", "web", "c1", "u1", false},
		"its pod in another tenant":  {"h1", "red", "web", "c2", "u1", true},
		"its pod in another network": {"h1", "red", "access", "c2", "u1", true},
		"a pod of another node":      {"h2", "blue", "web", "c3", "u1", true},
		"no pod":                     {"h1", "red", "web", "c4", "", true},
		"a pod that nobody knows":    {"h1", "red", "web", "c5", "u5", true},
		"a path for a pod":           {"h2", "blue", "web", "c6", "../h1/u1", true},
		"the node's own access":      {"h1", "red", "access", "h1", "", false},
		"the access of another node": {"h1", "red", "access", "h2", "", true},
	} {
		if refused := ask(c.node, c.tenant, c.network, c.container, c.uid); (refused != "") != c.refused {
			t.Errorf("%s: %q, want refused: %v", name, refused, c.refused)
		}
	}
	// What it has, it has, also when the pod has gone.
	b.plan(func(tx *ledger.Tx) error { tx.Delete(mastercfg.K8sPodKey("h1", "u1")); return nil })
	if refused := ask("h1", "blue", "web", "c1", "u1"); refused != "" {
		t.Errorf("an endpoint that it has: %s", refused)
	}
}

// Of a pod that is placed, a node does not choose the group; it has the endpoint of its sandbox, and those of a few before,
// and none that services of the tenant select by labels.
func TestUnderKubernetesANodeChoosesNothingOfAPlacedPod(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.ClusterMode = "kubernetes" })
	for _, group := range []string{"front", "db"} {
		b.want("proven:root", "POST", "endpointGroups/blue:"+group, fmt.Sprintf(`{"tenantName":"blue","networkName":"web","groupName":%q}`, group), 200, "")
	}
	b.joinedAs("h1")
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: "u1", Tenant: "blue", Network: "web", Group: "front"})
	})
	ask := func(container, group, more string) (code int, answer string) {
		code, answer, _ = b.do("POST", mastercfg.CreateEndpointPath, fmt.Sprintf(`{"TenantName":"blue","NetworkName":"web","PodUID":"u1"%s,"ConfigEP":{"Container":%q,"Host":"h1","ServiceName":%q}}`,
			more, container, group), provenHeader, "node/h1", "Accept", rest.ProblemType)
		return code, answer
	}
	for i, group := range []string{"front", "db", ""} {
		container := fmt.Sprintf("c%d", i)
		if code, answer := ask(container, group, ""); code != 200 {
			t.Fatalf("of group %q: %d %s", group, code, answer)
		}
		b.plan(func(tx *ledger.Tx) error {
			ep, err := ledger.Read[mastercfg.CfgEndpointState](tx, mastercfg.EndpointPrefix+"web.blue-"+container)
			if ep.ServiceName != "front" || ep.EndpointGroupKey != "front:blue" {
				t.Errorf("asked for group %q it is in %q, %q: %v", group, ep.ServiceName, ep.EndpointGroupKey, err)
			}
			return nil
		})
	}
	if code, answer := ask("c9", "front", `,"Labels":{"app":"web"}`); code != 403 {
		t.Errorf("with labels: %d %s", code, answer)
	}
	b.want("proven:node/h1", "POST", mastercfg.UpdateEndpointPath, `{"Tenant":"blue","Network":"web","EndpointID":"c0","ContainerID":"c0","Event":"start","Labels":{"app":"web"}}`, 403, "")
	given := 3
	for i := 3; i < 20; i++ {
		if code, _ := ask(fmt.Sprintf("c%d", i), "front", ""); code == 200 {
			given++
		}
	}
	if given != sandboxesOfPod {
		t.Errorf("one pod has %d endpoints, want %d", given, sandboxesOfPod)
	}
	if code, answer := ask("c0", "front", ""); code != 200 {
		t.Errorf("an endpoint that it has: %d %s", code, answer)
	}
}

// Addresses come with endpoints: the key of a node opens no tenant's pool by itself.
func TestUnderKubernetesANodeAllocatesNoAddresses(t *testing.T) {
	for mode, code := range map[string]int{"kubernetes": 403, "swarm-mode": 200} {
		b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.ClusterMode = mode })
		b.joinedAs("h1")
		b.want("proven:node/h1", "POST", mastercfg.AllocAddressPath, `{"NetworkID":"web.red"}`, code, "")
		b.want("proven:node/h1", "POST", mastercfg.ReleaseAddressPath, `{"NetworkID":"web.red","IPv4Address":"10.8.0.1"}`, code, "")
	}
}
