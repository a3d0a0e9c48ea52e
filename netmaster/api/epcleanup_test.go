package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// left returns the endpoints in the state.
func (b *bench) left() []string {
	b.Helper()
	kvs, _, err := b.db.List(b.Context(), mastercfg.EndpointPrefix)
	if err != nil {
		b.Fatal(err)
	}
	ids := []string{}
	for _, kv := range kvs {
		ids = append(ids, strings.TrimPrefix(kv.Key, mastercfg.EndpointPrefix))
	}
	return ids
}

func TestCleanUpTakesExactlyWhatIsNamed(t *testing.T) {
	b, h1, h2 := withNodes(t)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/red:web", strings.Replace(web, "blue", "red", 1))
	b.endpoint("red", "web", "", "c1")
	b.at("h1", "c1", "front")
	b.at("h2", "c10", "front")
	b.at("h2", "unknown", "back")
	b.at("h9", "away", "") // a node that is no more
	for _, step := range []struct {
		path, text string
		left       []string
	}{
		{"ep/c1", "ep c1 of tenant blue: 1 endpoints deleted", []string{"web.blue-away", "web.blue-c10", "web.blue-unknown", "web.red-c1"}},
		{"group/front", "group front of tenant blue: 1 endpoints deleted", []string{"web.blue-away", "web.blue-unknown", "web.red-c1"}},
		{"group/front", "group front of tenant blue: 0 endpoints deleted", []string{"web.blue-away", "web.blue-unknown", "web.red-c1"}},
		{"net/web", "net web of tenant blue: 2 endpoints deleted", []string{"web.red-c1"}},
	} {
		if got := b.ok("DELETE", "/debug/epcleanup/tenant/blue/"+step.path, ""); got != "Received request to cleanup "+step.text {
			t.Errorf("%s: %s", step.path, got)
		}
		if diff := cmp.Diff(step.left, b.left()); diff != "" {
			t.Errorf("%s: %s", step.path, diff)
		}
	}
	if diff := cmp.Diff([]string{"web.blue-c1"}, h1.asked); diff != "" {
		t.Errorf("h1: %s", diff)
	}
	if diff := cmp.Diff([]string{"web.blue-c10", "web.blue-unknown"}, h2.asked); diff != "" {
		t.Errorf("h2: %s", diff)
	}
	if n := inspected[contivmodel.NetworkOper](b, "networks/blue:web"); n.NumEndpoints != 0 || n.AllocatedAddressesCount != 0 {
		t.Errorf("counters %d %d", n.NumEndpoints, n.AllocatedAddressesCount)
	}
	b.refuseAll([]refusal{
		{"DELETE", "/debug/epcleanup/tenant/blue/ep/c1", "", "endpoint not found", 404, "not-found"},
		{"DELETE", "/debug/epcleanup/tenant/blue/ep/web.red-c1", "", "endpoint not found", 404, "not-found"},
		{"DELETE", "/debug/epcleanup/tenant/blue/net/we", "", "network not found", 404, "not-found"},
		{"DELETE", "/debug/epcleanup/tenant/green/group/front", "", "endpointGroup not found", 404, "not-found"},
	})
	if code, _, _ := b.do("DELETE", "/debug/epcleanup/tenant/blue/pod/c1", ""); code != 404 {
		t.Errorf("an unknown category: %d", code)
	}
}

// "web.x" of blue and "web" of x.blue make the same id.
func TestCleanUpOfANetworkLeavesThatOfATenantWithADotAlone(t *testing.T) {
	b, _, _ := withNodes(t)
	b.ok("POST", "tenants/x.blue", `{"tenantName":"x.blue"}`)
	b.ok("POST", "networks/x.blue:web", strings.NewReplacer("blue", "x.blue", "10.7.", "10.8.").Replace(web))
	plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
		TenantName: "x.blue", NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Container: "c1", Host: "h9"}})
	b.refuseAll([]refusal{{"DELETE", "/debug/epcleanup/tenant/blue/net/web.x", "", "network not found", 404, "not-found"}})
	if diff := cmp.Diff([]string{"web.x.blue-c1"}, b.left()); diff != "" {
		t.Error(diff)
	}
}

// The tenant of an endpoint without a network is unknown: only operators may clean it up.
func TestCleanUpOfWhatANetworkHasLeftIsForOperators(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	bob := b.user("bob", rights.Grant{Role: rights.Operator, Tenant: rights.Everywhere})
	b.plan(func(tx *ledger.Tx) error {
		left := mastercfg.CfgEndpointState{NetID: "web.x.blue", HomingHost: "h9"}
		left.ID = "web.x.blue-c1"
		return ledger.Write(tx, mastercfg.EndpointPrefix+left.ID, left)
	})
	for _, path := range []string{"net/web.x", "ep/c1", "ep/web.x.blue-c1"} {
		b.want(ann, "DELETE", "/debug/epcleanup/tenant/blue/"+path, "", 500, "not found")
	}
	if diff := cmp.Diff([]string{"web.x.blue-c1"}, b.left()); diff != "" {
		t.Error(diff)
	}
	b.want(bob, "DELETE", "/debug/epcleanup/tenant/blue/net/web.x", "", 200, "1 endpoints deleted")
}

func TestCleanUpNamesSomeOfManyThatAreLeft(t *testing.T) {
	b, h1, _ := withNodes(t)
	h1.set(func(n *nodeREST) { n.failing = true })
	for i := range failuresTold + 5 {
		b.at("h1", fmt.Sprintf("c%d", i), "")
	}
	code, text, _ := b.do("DELETE", "/debug/epcleanup/tenant/blue/net/web", "")
	if code != 500 || !strings.HasPrefix(text, "25 of 25 endpoints not cleaned up: ") || strings.Count(text, "switch is away") != failuresTold || !strings.HasSuffix(text, "; and 5 more") {
		t.Errorf("%d %s", code, text)
	}
}

func TestCleanUpGoesOnPastNodesThatFailAndSaysSo(t *testing.T) {
	b, h1, h2 := withNodes(t)
	h1.set(func(n *nodeREST) { n.failing = true })
	b.at("h1", "c1", "")
	b.at("h2", "c2", "")
	b.at("h3", "c3", "")
	b.at("h3", "c4", "")
	code, text, _ := b.do("DELETE", "/debug/epcleanup/tenant/blue/net/web", "")
	if code != 500 || !strings.HasPrefix(text, "3 of 4 endpoints not cleaned up: endpoint web.blue-c1: host h1: node 127.0.0.1:") ||
		!strings.Contains(text, "500 Internal Server Error: switch is away") || strings.Count(text, "does not answer") != 2 {
		t.Errorf("%d %s", code, text)
	}
	if diff := cmp.Diff([]string{"web.blue-c1", "web.blue-c3", "web.blue-c4"}, b.left()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"web.blue-c2"}, h2.asked); diff != "" {
		t.Error(diff)
	}
	h1.set(func(n *nodeREST) { n.failing = false })
	b.ok("DELETE", "/debug/epcleanup/tenant/blue/ep/c1", "")
}

func TestCleanUpLeavesWhatAContainerUses(t *testing.T) {
	b, h1, _ := withNodes(t)
	h1.set(func(n *nodeREST) { n.used = "web.blue-c5" })
	b.at("h1", "c5", "")
	b.at("h1", "c6", "")
	code, text, _ := b.do("DELETE", "/debug/epcleanup/tenant/blue/net/web", "")
	if code != 500 || !strings.HasPrefix(text, "1 of 2 endpoints not cleaned up: endpoint web.blue-c5: host h1: a container uses it:") || !strings.Contains(text, "c5@eth0") {
		t.Errorf("%d %s", code, text)
	}
	if diff := cmp.Diff([]string{"web.blue-c5"}, b.left()); diff != "" {
		t.Error(diff)
	}
}

// The address of a pod rests after a cleanup, as after its node has released it.
func TestAddressesOfPodsThatAreCleanedUpRest(t *testing.T) {
	b := withGroup(t)
	add := func(container, uid string) string {
		return plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
			TenantName: "blue", NetworkName: "web", PodUID: uid, ConfigEP: mastercfg.ConfigEP{Container: container, Host: "h9"},
		}).EndpointConfig.IPAddress
	}
	first := add("c1", "u1")
	b.ok("DELETE", "/debug/epcleanup/tenant/blue/ep/c1", "")
	if again := add("c2", "u1"); again != first {
		t.Errorf("the next attempt of the pod gets %s, want %s", again, first)
	}
}
