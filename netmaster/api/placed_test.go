package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Under Kubernetes a node gets access to a tenant by a pod that the leader has placed there, not by a request.
func TestUnderKubernetesANodeHasEndpointsOfItsPods(t *testing.T) {
	log := newAudited(t)
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.ClusterMode = "kubernetes" }, log.of)
	b.want("proven:root", "POST", "networks/red:access", `{"tenantName":"red","networkName":"access","encap":"vxlan","nwType":"infra","subnet":"10.9.0.0/24","gateway":"10.9.0.254"}`, 200, "")
	b.joinedAs("h1")
	b.joinedAs("h2")
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: "u1", Tenant: "blue", Network: "web"})
	})
	body := func(node, tenant, network, container, uid string) string {
		return fmt.Sprintf(`{"TenantName":%q,"NetworkName":%q,"PodUID":%q,"ConfigEP":{"Container":%q,"Host":%q}}`, tenant, network, uid, container, node)
	}
	ask := func(node, tenant, network, container, uid string) string {
		code, answer, _ := b.do("POST", mastercfg.CreateEndpointPath, body(node, tenant, network, container, uid), provenHeader, "node/"+node, "Accept", fault.ProblemType)
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
		if log.news(); c.refused {
			b.forbids(log, name, "node/"+c.node, mastercfg.CreateEndpointPath, body(c.node, c.tenant, c.network, c.container, c.uid),
				fmt.Sprintf("endpoint %s in network %s:%s", c.container, c.tenant, c.network), "netmaster knows no pod of the node that belongs there")
		} else if refused := ask(c.node, c.tenant, c.network, c.container, c.uid); refused != "" {
			t.Errorf("%s: %s", name, refused)
		}
	}
	// It keeps its endpoints, also when the pod has gone.
	b.plan(func(tx *ledger.Tx) error { tx.Delete(mastercfg.K8sPodKey("h1", "u1")); return nil })
	if refused := ask("h1", "blue", "web", "c1", "u1"); refused != "" {
		t.Errorf("an endpoint that it has: %s", refused)
	}
}

// For a placed pod a node does not choose the group; it gets the endpoint of its sandbox, and those of a few
// earlier ones, and none that services of the tenant select by labels.
func TestUnderKubernetesANodeChoosesNothingOfAPlacedPod(t *testing.T) {
	log := newAudited(t)
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.ClusterMode = "kubernetes" }, log.of)
	for _, group := range []string{"front", "db"} {
		b.want("proven:root", "POST", "endpointGroups/blue:"+group, fmt.Sprintf(`{"tenantName":"blue","networkName":"web","groupName":%q}`, group), 200, "")
	}
	b.joinedAs("h1")
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: "u1", Tenant: "blue", Network: "web", Group: "front"})
	})
	body := func(container, group, more string) string {
		return fmt.Sprintf(`{"TenantName":"blue","NetworkName":"web","PodUID":"u1"%s,"ConfigEP":{"Container":%q,"Host":"h1","ServiceName":%q}}`, more, container, group)
	}
	ask := func(container, group, more string) (code int, answer string) {
		code, answer, _ = b.do("POST", mastercfg.CreateEndpointPath, body(container, group, more), provenHeader, "node/h1", "Accept", fault.ProblemType)
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
	log.news()
	for _, a := range []attack{
		{"with labels", mastercfg.CreateEndpointPath, body("c9", "front", `,"Labels":{"app":"web"}`), "endpoint c9 in network blue:web", "node/h1 may not"},
		{"labels later", mastercfg.UpdateEndpointPath, `{"Tenant":"blue","Network":"web","EndpointID":"c0","ContainerID":"c0","Event":"start","Labels":{"app":"web"}}`, "endpoint c0 in network blue:web", "node/h1 may not"},
		// With another name it would stay in its group when the leader moves the pod to another one.
		{"another name", mastercfg.UpdateEndpointPath, `{"Tenant":"blue","Network":"web","EndpointID":"c0","ContainerID":"c0","EPCommonName":"other","Event":"start"}`, "endpoint c0 in network blue:web", "node/h1 may not"},
		{"an end", mastercfg.UpdateEndpointPath, `{"ContainerID":"c0","Event":"die"}`, "endpoint c0 in", "node/h1 may not"},
	} {
		b.forbids(log, a.name, "node/h1", a.path, a.body, a.about, a.reason)
	}
	given := 3
	for i := 3; i < 20; i++ {
		if code, _ := ask(fmt.Sprintf("c%d", i), "front", ""); code == 200 {
			given++
		}
	}
	if given != sandboxesOfPod {
		t.Errorf("one pod has %d endpoints, want %d", given, sandboxesOfPod)
	}
	log.news()
	b.forbids(log, "one more", "node/h1", mastercfg.CreateEndpointPath, body("c20", "front", ""), "endpoint c20 in network blue:web", "pod shop/web has 8 endpoints")
	if code, answer := ask("c0", "front", ""); code != 200 {
		t.Errorf("an endpoint that it has: %d %s", code, answer)
	}
}

// In tenant default a node has, beside endpoints of its placed pods, those of static pods unknown to netmaster: in
// no group, with no address or name of its choice, and not many.
func TestUnderKubernetesANodeHasStaticPodsInTenantDefault(t *testing.T) {
	log := newAudited(t)
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.ClusterMode = "kubernetes" }, log.of)
	b.want("proven:root", "POST", "tenants/default", `{"tenantName":"default"}`, 200, "")
	for name, kind := range map[string]string{"pods": "", "access": "infra"} {
		third := len(name)
		b.want("proven:root", "POST", "networks/default:"+name, fmt.Sprintf(`{"tenantName":"default","networkName":%q,"encap":"vxlan","nwType":%q,"subnet":"10.9.%d.0/24","gateway":"10.9.%d.254"}`, name, kind, third, third), 200, "")
	}
	for group, network := range map[string]string{"db": "pods", "far": "access"} {
		b.want("proven:root", "POST", "endpointGroups/default:"+group, fmt.Sprintf(`{"tenantName":"default","networkName":%q,"groupName":%q}`, network, group), 200, "")
	}
	b.joinedAs("h1")
	b.joinedAs("h2")
	b.plan(func(tx *ledger.Tx) error {
		return errors.Join(
			ledger.Write(tx, mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: "u1", Tenant: "default", Network: "pods"}),
			ledger.Write(tx, mastercfg.K8sPodKey("h1", "a1"), mastercfg.K8sPod{Namespace: "shop", Name: "proxy-h1", UID: "a1", Tenant: "blue", Network: "web"}))
	})
	body := func(node string, req mastercfg.CreateEndpointRequest) string {
		req.TenantName, req.ConfigEP.Host = "default", node
		text, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ask := func(node string, req mastercfg.CreateEndpointRequest) (int, string) {
		code, answer, _ := b.do("POST", mastercfg.CreateEndpointPath, body(node, req), provenHeader, "node/"+node, "Accept", fault.ProblemType)
		return code, answer
	}
	at := func(id string) (ep mastercfg.CfgEndpointState) {
		b.plan(func(tx *ledger.Tx) (err error) {
			ep, err = ledger.Read[mastercfg.CfgEndpointState](tx, mastercfg.EndpointPrefix+id)
			return err
		})
		return ep
	}
	static := func(container string, change ...func(*mastercfg.CreateEndpointRequest)) mastercfg.CreateEndpointRequest {
		req := mastercfg.CreateEndpointRequest{NetworkName: "pods", PodUID: "a5", PodNamespace: "kube-system", EPCommonName: "agent-h1", ConfigEP: mastercfg.ConfigEP{Container: container}}
		for _, c := range change {
			c(&req)
		}
		return req
	}
	for name, c := range map[string]struct {
		change func(*mastercfg.CreateEndpointRequest)
		code   int
	}{
		"a static pod":                        {func(*mastercfg.CreateEndpointRequest) {}, 200},
		"its second interface":                {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.Container = "c0ffee@net1" }, 200},
		"in a group":                          {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.Container, r.ConfigEP.ServiceName = "c0de", "db" }, 200},
		"in a group of another network":       {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.ServiceName = "far" }, 400},
		"in a group that there is not":        {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.ServiceName = "none" }, 422},
		"with an address":                     {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.IPAddress = "10.9.4.9" }, 403},
		"with an address of IPv6":             {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.IPv6Address = "2001:db8::9" }, 403},
		"with labels":                         {func(r *mastercfg.CreateEndpointRequest) { r.Labels = map[string]string{"app": "web"} }, 403},
		"no pod":                              {func(r *mastercfg.CreateEndpointRequest) { r.PodUID = "" }, 403},
		"a pod of the API server's":           {func(r *mastercfg.CreateEndpointRequest) { r.PodUID = "8c0e6f5a-7b34-4f3e-9d0c-6a1f2e3d4c5b" }, 403},
		"a path for a pod":                    {func(r *mastercfg.CreateEndpointRequest) { r.PodUID = "../h1/a5" }, 403},
		"another pod's name":                  {func(r *mastercfg.CreateEndpointRequest) { r.EPCommonName = "web" }, 403},
		"no name":                             {func(r *mastercfg.CreateEndpointRequest) { r.EPCommonName = "" }, 403},
		"another pod's name for a sandbox":    {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.Container = "web" }, 403},
		"no sandbox":                          {func(r *mastercfg.CreateEndpointRequest) { r.ConfigEP.Container = "" }, 403},
		"a static pod that belongs elsewhere": {func(r *mastercfg.CreateEndpointRequest) { r.PodUID = "a1" }, 403},
	} {
		req := static("c0ffee"+fmt.Sprint(len(name)), c.change)
		if log.news(); c.code == 403 {
			b.forbids(log, name, "node/h1", mastercfg.CreateEndpointPath, body("h1", req), fmt.Sprintf("endpoint %s in network default:pods", cmp.Or(req.ConfigEP.Container, "h1")), "node/h1 may not")
		} else if code, answer := ask("h1", req); code != c.code {
			t.Errorf("%s: %d %s, want %d", name, code, answer, c.code)
		}
	}
	if ep := at("pods.default-c0de"); ep.ServiceName != "" || ep.EndpointGroupKey != "" || ep.IPAddress == "" || ep.EPCommonName != "agent-h1" || ep.PodUID != "a5" {
		t.Errorf("a static pod that asked for a group: %+v", ep)
	}
	// A node does not choose the names for placed pods and for itself either.
	if code, answer := ask("h1", static("c1", func(r *mastercfg.CreateEndpointRequest) { r.PodUID, r.EPCommonName = "u1", "db-0" })); code != 200 {
		t.Errorf("a placed pod: %d %s", code, answer)
	}
	if ep := at("pods.default-c1"); ep.PodNamespace != "shop" || ep.EPCommonName != "web" {
		t.Errorf("a placed pod: %+v", ep)
	}
	if code, answer := ask("h1", static("h1", func(r *mastercfg.CreateEndpointRequest) { r.NetworkName, r.ConfigEP.ServiceName = "access", "far" })); code != 200 {
		t.Errorf("the node's own access: %d %s", code, answer)
	}
	if ep := at("access.default-h1"); ep.EPCommonName != "" || ep.PodUID != "" || ep.ServiceName != "" {
		t.Errorf("the node's own access: %+v", ep)
	}

	refused := ""
	for i := range staticEndpoints + 5 {
		if code, answer := ask("h1", static(fmt.Sprintf("d%d", i), func(r *mastercfg.CreateEndpointRequest) { r.PodUID = fmt.Sprintf("ab%d", i) })); code != 200 {
			refused = answer
		}
	}
	b.plan(func(tx *ledger.Tx) error {
		if has := master.StaticEndpoints(tx, "h1"); has != staticEndpoints || !strings.Contains(refused, fmt.Sprintf("has %d endpoints of static pods", staticEndpoints)) {
			t.Errorf("it has %d endpoints of static pods, want %d: %s", has, staticEndpoints, refused)
		}
		return nil
	})
	log.news()
	b.forbids(log, "one more", "node/h1", mastercfg.CreateEndpointPath, body("h1", static("e0")), "endpoint e0 in network default:pods", "endpoints of static pods")
	if code, answer := ask("h2", static("c2", func(r *mastercfg.CreateEndpointRequest) { r.EPCommonName = "agent-h2" })); code != 200 {
		t.Errorf("another node: %d %s", code, answer)
	}
	// A static pod with its mirror pod is like any other.
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sPodKey("h1", "a9"), mastercfg.K8sPod{Namespace: "kube-system", Name: "late-h1", UID: "a9", Tenant: "default", Network: "pods", Group: "db"})
	})
	if code, answer := ask("h1", static("c9", func(r *mastercfg.CreateEndpointRequest) { r.PodUID, r.ConfigEP.IPAddress = "a9", "10.9.4.99" })); code != 200 {
		t.Errorf("a static pod with a mirror pod: %d %s", code, answer)
	}
	b.want("proven:node/h1", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"default","NetworkName":"pods","EndpointID":"d0"}`, 200, "")
	b.want("proven:node/h1", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"default","NetworkName":"pods","EndpointID":"d1"}`, 200, "")
	if code, answer := ask("h1", static("e0")); code != 200 {
		t.Errorf("when others have gone: %d %s", code, answer)
	}
}

// Addresses are assigned with endpoints only: the key of a node alone gives no access to a tenant's pool.
func TestUnderKubernetesANodeAllocatesNoAddresses(t *testing.T) {
	for _, mode := range []string{"kubernetes", "swarm-mode"} {
		log := newAudited(t)
		b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.ClusterMode = mode }, log.of)
		b.joinedAs("h1")
		log.news()
		for _, a := range []attack{
			{"an address", mastercfg.AllocAddressPath, `{"NetworkID":"web.red"}`, "address in web.red", "node/h1 may not"},
			{"the release of one", mastercfg.ReleaseAddressPath, `{"NetworkID":"web.red","IPv4Address":"10.8.0.1"}`, "address 10.8.0.1 in web.red", "node/h1 may not"},
		} {
			if mode == "kubernetes" {
				b.forbids(log, a.name, "node/h1", a.path, a.body, a.about, a.reason)
			} else {
				b.want("proven:node/h1", "POST", a.path, a.body, 200, "")
			}
		}
	}
}
