package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// joinedAs records a node under a name, in some tenants; none: all.
func (b *bench) joinedAs(host string, tenants ...string) {
	b.Helper()
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.NodePrefix+host, mastercfg.Joined{Host: host, Key: b.proven("node/" + host).KeyHash, Tenants: tenants})
	})
}

// attack is a forbidden request of the agent of h1, which may serve blue.
type attack struct{ name, path, body, about, reason string }

// attacks are requests that a node's key does not permit. The endpoints "b" of blue and "r" of red are on h2, and
// run the containers "cb" and "cr".
var attacks = []attack{
	{"endpoint on another host", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"x","Host":"h2"}}`, "endpoint x in network blue:web", `node/h1 may not speak for host "h2"`},
	{"endpoint on no host", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"x"}}`, "endpoint x in network blue:web", `node/h1 may not speak for host ""`},
	{"endpoint on a host of another case", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"x","Host":"H1"}}`, "endpoint x in network blue:web", `node/h1 may not speak for host "H1"`},
	{"endpoint in another tenant", mastercfg.CreateEndpointPath, `{"TenantName":"red","NetworkName":"web","ConfigEP":{"Container":"x","Host":"h1"}}`, "endpoint x in network red:web", `node/h1 may not serve tenant "red"`},
	{"endpoint in a tenant that there is not", mastercfg.CreateEndpointPath, `{"TenantName":"none","NetworkName":"web","ConfigEP":{"Container":"x","Host":"h1"}}`, "endpoint x in network none:web", `node/h1 may not serve tenant "none"`},
	{"endpoint of another host again", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"b","Host":"h1"}}`, "endpoint b in network blue:web", `node/h1 may not speak for host "h2"`},
	{"deletion on another host", mastercfg.DeleteEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"b"}`, "endpoint b in network blue:web", `node/h1 may not speak for host "h2"`},
	{"deletion in another tenant", mastercfg.DeleteEndpointPath, `{"TenantName":"red","NetworkName":"web","EndpointID":"r"}`, "endpoint r in network red:web", `node/h1 may not serve tenant "red"`},
	{"start on another host", mastercfg.UpdateEndpointPath, `{"Tenant":"blue","Network":"web","EndpointID":"b","ContainerID":"x","Event":"start"}`, "endpoint b in network blue:web", `node/h1 may not speak for host "h2"`},
	{"start in another tenant", mastercfg.UpdateEndpointPath, `{"Tenant":"red","Network":"web","EndpointID":"r","ContainerID":"x","Event":"start"}`, "endpoint r in network red:web", `node/h1 may not serve tenant "red"`},
	{"end on another host", mastercfg.UpdateEndpointPath, `{"ContainerID":"cb","Event":"die"}`, "endpoint cb in", `node/h1 may not speak for host "h2"`},
	{"end in another tenant", mastercfg.UpdateEndpointPath, `{"ContainerID":"cr","Event":"die"}`, "endpoint cr in", `node/h1 may not speak for host "h2"`},
	{"address in another tenant", mastercfg.AllocAddressPath, `{"NetworkID":"web.red"}`, "address in web.red", `node/h1 may not serve tenant "red"`},
	{"address in a pool of another tenant", mastercfg.AllocAddressPath, `{"AddressPool":"10.8.0.0/24:red"}`, "address in 10.8.0.0/24:red", `node/h1 may not serve tenant "red"`},
	{"release of a group that is gone in another tenant", mastercfg.ReleaseAddressPath, `{"NetworkID":"web:gone.red","IPv4Address":"10.8.0.1"}`, "address 10.8.0.1 in web:gone.red", `tenant "red"`},
	{"release in another tenant", mastercfg.ReleaseAddressPath, `{"NetworkID":"web.red","IPv4Address":"10.8.0.1"}`, "address 10.8.0.1 in web.red", `node/h1 may not serve tenant "red"`},
}

// forbids expects that a request is refused in the words of old clients and of others, that each has its line of the
// audit log with what was tried and why not, and that nothing at all has changed in the store.
func (b *bench) forbids(log *audited, name, who, path, body, about, reason string) {
	b.Helper()
	before := b.everything()
	for accept, says := range map[string]string{"": "Insufficient privileges", fault.ProblemType: strings.ReplaceAll(reason, `"`, `\"`)} {
		code, answer, _ := b.do("POST", path, body, provenHeader, who, "Accept", accept)
		if code != 403 || !strings.Contains(answer, says) {
			b.Errorf("%s: %d %s", name, code, answer)
		}
		lines := log.news()
		if len(lines) != 1 {
			b.Errorf("%s: %d lines, want one: %+v", name, len(lines), lines)
			continue
		}
		if e := lines[0]; e.Principal != who || e.How != "certificate" || e.Verb != "POST" || e.Key != path || e.Decision != audit.Denied || e.Status != 403 ||
			!strings.HasPrefix(e.About, about) || !strings.Contains(e.Reason, reason) {
			b.Errorf("%s: the line is %+v, want %q about %q", name, e, reason, about)
		}
	}
	if after := b.everything(); after != before {
		b.Errorf("%s: the store has changed:\n%s\nwas\n%s", name, after, before)
	}
}

// everything returns all that is in the store, and when it was written.
func (b *bench) everything() string {
	b.Helper()
	kvs, _, err := b.db.List(b.Context(), mastercfg.Root)
	if err != nil {
		b.Fatal(err)
	}
	if len(kvs) == 0 {
		b.Fatal("the store is empty")
	}
	var text strings.Builder
	for _, kv := range kvs {
		fmt.Fprintf(&text, "%s at %d: %s\n", kv.Key, kv.ModRevision, kv.Value)
	}
	return text.String()
}

// attacked returns a cluster with h1, which serves blue, and h2, which serves all.
func attacked(t *testing.T, mode mastercfg.SecurityMode, change ...func(*Config)) *bench {
	b := secured(t, mode, change...)
	b.joinedAs("h1", "blue")
	b.joinedAs("h2")
	for _, ep := range [][3]string{{"blue", "b", "cb"}, {"red", "r", "cr"}} {
		b.want("proven:node/h2", "POST", mastercfg.CreateEndpointPath,
			fmt.Sprintf(`{"TenantName":%q,"NetworkName":"web","ConfigEP":{"Container":%q,"Host":"h2"}}`, ep[0], ep[1]), 200, "10.")
		b.want("proven:node/h2", "POST", mastercfg.UpdateEndpointPath,
			fmt.Sprintf(`{"Tenant":%q,"Network":"web","EndpointID":%q,"ContainerID":%q,"Event":"start"}`, ep[0], ep[1], ep[2]), 200, "")
	}
	return b
}

// A later tenant with the name of a deleted one is not open to the nodes that have joined for the former, nor to
// those that will with the same tokens.
func TestNodesLoseATenantThatIsDeleted(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	b.joinedAs("h1", "red")
	b.joinedAs("h2", "blue", "red")
	b.joinedAs("h3")
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.JoinTokenPrefix+"t1", mastercfg.JoinToken{ID: "t1", Role: "node", Host: "*", Tenants: []string{"red"}})
	})
	b.want("proven:root", "DELETE", "networks/red:web", "", 200, "")
	b.want("proven:root", "DELETE", "tenants/red", "", 200, "")
	b.want("proven:root", "POST", "tenants/red", `{"tenantName":"red"}`, 200, "")
	b.want("proven:root", "POST", "networks/red:web", strings.NewReplacer("blue", "red", "10.7.", "10.8.").Replace(web), 200, "")
	for _, c := range []struct {
		host, tenant string
		code         int
	}{{"h1", "red", 403}, {"h1", "blue", 403}, {"h2", "red", 403}, {"h2", "blue", 200}, {"h3", "red", 200}} {
		b.want("proven:node/"+c.host, "POST", mastercfg.CreateEndpointPath,
			fmt.Sprintf(`{"TenantName":%q,"NetworkName":"web","ConfigEP":{"Container":%q,"Host":%[2]q}}`, c.tenant, c.host), c.code, "")
	}
	for host, want := range map[string]string{"h1": "[(none)]", "h2": "[blue]", "h3": "[]"} {
		if got := fmt.Sprint(record[mastercfg.Joined](b, mastercfg.NodePrefix+host).Tenants); got != want {
			t.Errorf("%s serves %s, want %s", host, got, want)
		}
	}
	if got := fmt.Sprint(record[mastercfg.JoinToken](b, mastercfg.JoinTokenPrefix+"t1").Tenants); got != "[(none)]" {
		t.Errorf("the token is for %s", got)
	}
	b.want("proven:root", "POST", "tenants/"+url.PathEscape(mastercfg.NoTenant), fmt.Sprintf(`{"tenantName":%q}`, mastercfg.NoTenant), 500, "invalid format")
}

func TestANodeSpeaksForItselfOnly(t *testing.T) {
	log := newAudited(t)
	b := attacked(t, mastercfg.SecurityEnforced, log.of)
	log.news()
	for _, a := range attacks {
		b.forbids(log, a.name, "node/h1", a.path, a.body, a.about, a.reason)
	}
	// and its own endpoint
	b.endpointAs("proven:node/h1", "blue", "own")
	b.want("proven:node/h1", "POST", mastercfg.UpdateEndpointPath, `{"Tenant":"blue","Network":"web","EndpointID":"own","ContainerID":"c","Event":"start"}`, 200, "")
	b.want("proven:node/h1", "POST", mastercfg.UpdateEndpointPath, `{"ContainerID":"c","Event":"die"}`, 200, "")
	b.want("proven:node/h1", "POST", mastercfg.UpdateEndpointPath, `{"ContainerID":"unknown","Event":"die"}`, 200, "null")
	b.want("proven:node/h1", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"own"}`, 200, "10.7.")
	b.want("proven:node/h1", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"own"}`, 500, "")
	b.want("proven:node/h1", "POST", mastercfg.AllocAddressPath, `{"NetworkID":"web.blue"}`, 200, "10.7.")
	// which may carry another endpoint's ids: that does the other one no harm
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, endpointOf("blue", "web", "claim"), 200, "10.7.")
	b.want("proven:node/h1", "POST", mastercfg.UpdateEndpointPath, `{"Tenant":"blue","Network":"web","EndpointID":"claim","ContainerID":"cb","Event":"start"}`, 200, "")
	b.want("proven:node/h2", "POST", mastercfg.UpdateEndpointPath, `{"ContainerID":"cb","Event":"die"}`, 200, "")
	for id, want := range map[string]string{"b": "", "claim": "cb"} {
		if got := record[mastercfg.CfgEndpointState](b, mastercfg.EndpointPrefix+"web.blue-"+id).ContainerID; got != want {
			t.Errorf("endpoint %s has container %q, want %q", id, got, want)
		}
	}
	// also in a tenant that it no longer serves, and whatever way the id can be split: networks and tenants may have
	// dots
	b.want("proven:root", "POST", "/api/v1/networks/red:hosts.a/", `{"tenantName":"red","networkName":"hosts.a","encap":"vxlan","nwType":"infra","subnet":"10.77.0.0/24"}`, 200, "")
	b.want("proven:root", "POST", mastercfg.CreateEndpointPath, `{"TenantName":"red","NetworkName":"hosts.a","EndpointID":"h1","ConfigEP":{"Host":"h1"}}`, 200, "10.77.")
	b.want("proven:node/h2", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"a.red","NetworkName":"hosts","EndpointID":"h1"}`, 403, "")
	b.want("proven:node/h1", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"a.red","NetworkName":"hosts","EndpointID":"h1","Host":"h1"}`, 200, "10.77.")
	// root of a netmaster speaks for all
	b.want("proven:root", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"red","NetworkName":"web","EndpointID":"r"}`, 200, "10.8.")
}

// The network of another tenant can have the id that a network of the node's tenant would have.
func TestANodeGetsNoEndpointInANetworkOfTheSameID(t *testing.T) {
	b := attacked(t, mastercfg.SecurityEnforced)
	b.want("proven:root", "POST", "/api/v1/tenants/x.blue/", `{"tenantName":"x.blue"}`, 200, "")
	b.want("proven:root", "POST", "/api/v1/networks/x.blue:web/", strings.NewReplacer(`"blue"`, `"x.blue"`, "10.7.", "10.9.").Replace(web), 200, "")
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web.x","ConfigEP":{"Container":"x","Host":"h1"}}`,
		500, "network web.x of tenant blue")
	b.want("proven:root", "POST", "/api/v1/endpointGroups/blue:g/", `{"tenantName":"blue","groupName":"g","networkName":"web.x"}`, 500, "Network web.x not found")
	b.want("proven:root", "POST", "/api/v1/serviceLBs/blue:s/", `{"tenantName":"blue","serviceName":"s","networkName":"web.x","ports":["80:80:TCP"],"selectors":["a=b"]}`, 500, "Network web.x not found")
}

// In a permissive cluster it is audited, and carried out.
func TestWhatANodeSaysOfOthersIsNotedInAPermissiveCluster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	b := attacked(t, mastercfg.SecurityPermissive, func(c *Config) { c.Audit = log })
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, `{"TenantName":"red","NetworkName":"web","ConfigEP":{"Container":"x","Host":"h2"}}`, 200, "10.8.")
	var answer struct{ EndpointConfig mastercfg.CfgEndpointState }
	deleted := b.want("proven:node/h1", "POST", mastercfg.DeleteEndpointPath, `{"TenantName":"red","NetworkName":"web","EndpointID":"x"}`, 200, "10.8.")
	if err := json.Unmarshal([]byte(deleted), &answer); err != nil || answer.EndpointConfig.HomingHost != "h2" {
		t.Errorf("%s, %v", deleted, err)
	}
	text := linesOf(t, log, path)
	for _, part := range []string{`node/h1 may not speak for host \"h2\"`, `node/h1 may not serve tenant \"red\"`} {
		if !strings.Contains(text, part) {
			t.Errorf("not noted: %s in %s", part, text)
		}
	}
}
