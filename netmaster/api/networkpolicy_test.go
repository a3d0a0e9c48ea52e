package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/fault"
)

// The status of a NetworkPolicy has only the tenants that the caller sees; a policy without any of these looks
// like one that does not exist.
func TestANetworkPolicyIsInspectedByWhoSeesItsTenants(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	of := func(name string, role rights.Role, tenant string) string {
		return b.user(name, rights.Grant{Role: role, Tenant: tenant})
	}
	viewer, blue, red, bare := of("ann", rights.Viewer, "*"), of("bob", rights.TenantAdmin, "blue"), of("cyd", rights.Viewer, "red"), b.user("dan")
	const path = "inspect/networkPolicies/"
	b.want(viewer, "GET", path+"shop:db", "", 500, "network policy not found") // nobody follows Kubernetes
	policies := map[string]NetworkPolicy{
		"shop/db":    {"blue", []NetworkPolicyNode{{"n1", []string{"blue", "red"}, ""}, {"n2", []string{"blue"}, "it is slow"}, {"n3", []string{"red"}, "it is full"}}},
		"shop/empty": {"blue", nil},
	}
	b.api.TellNetworkPolicies(func(_ context.Context, namespace, name string) (NetworkPolicy, error) {
		if name == "soon" {
			return NetworkPolicy{}, fault.New(fault.Unavailable, "not yet")
		}
		policy, there := policies[namespace+"/"+name]
		if !there {
			return policy, fault.New(fault.NotFound, "there is none")
		}
		return policy, nil
	})
	for _, c := range []struct{ what, who, key, realised, nodes, missing string }{
		{"who sees all", viewer, "shop:db", "on 1 of 3 nodes", "n1 n2 n3", "n2: it is slow, n3: it is full"},
		{"root", "proven:root", "shop:db", "on 1 of 3 nodes", "n1 n2 n3", "n2: it is slow, n3: it is full"},
		{"who administers the namespace's tenant", blue, "shop:db", "on 1 of 2 nodes", "n1 n2", "n2: it is slow"},
		{"who sees the tenant of some pods", red, "shop:db", "on 1 of 2 nodes", "n1 n3", "n3: it is full"},
		{"who sees all", viewer, "shop:empty", "on 0 of 0 nodes", "", ""},
		{"who administers the namespace's tenant", blue, "shop:empty", "on 0 of 0 nodes", "", ""},
	} {
		status, answer, _ := b.as(c.who, "GET", path+c.key, "")
		var got contivmodel.NetworkPolicyInspect
		if err := json.Unmarshal([]byte(answer), &got); status != 200 || err != nil {
			t.Errorf("%s: %d %s, %v", c.what, status, answer, err)
			continue
		}
		var missing []string
		for _, m := range got.Oper.Missing {
			missing = append(missing, m.Node+": "+m.Why)
		}
		if o := got.Oper; o.Key != c.key || o.Realised != c.realised || strings.Join(o.Nodes, " ") != c.nodes || strings.Join(missing, ", ") != c.missing {
			t.Errorf("%s is told %s", c.what, answer)
		}
	}
	for _, who := range []string{red, bare} {
		_, none, _ := b.as(who, "GET", path+"shop:none", "")
		if answer := b.want(who, "GET", path+"shop:empty", "", 500, "network policy not found"); answer != none {
			t.Errorf("of one that is not his: %s, of one that is not there: %s", answer, none)
		}
	}
	b.want(bare, "GET", path+"shop:db", "", 500, "network policy not found")
	b.want(viewer, "GET", path+"shop:soon", "", 500, "not yet")
}
