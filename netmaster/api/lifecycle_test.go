package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

func TestEverythingThatIsMadeAndDeletedLeavesTheStoreAsItWas(t *testing.T) {
	b := booted(t)
	before := storetest.Dump(t, b.db)

	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "networks/red:lan", `{"tenantName":"red","networkName":"lan","encap":"vlan","subnet":"10.7.0.0/24","ipv6Subnet":"2001:db8::/64"}`)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"],"ipPool":"10.7.0.10-10.7.0.20"}`)
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"web"}`)
	b.ok("POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"allow","protocol":"tcp","port":80,"fromEndpointGroup":"back"}`)
	b.ok("POST", "rules/blue:p:2", `{"tenantName":"blue","policyName":"p","ruleId":"2","direction":"out","action":"deny","toNetwork":"web"}`)
	b.endpoint("blue", "web", "front", "c1")
	b.endpoint("blue", "web", "", "c2")
	b.endpoint("red", "lan", "", "c3")
	b.ok("PUT", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"web","policies":["p"]}`)

	b.noEndpoint("blue", "web", "c1")
	b.noEndpoint("blue", "web", "c2")
	b.noEndpoint("red", "lan", "c3")
	b.ok("DELETE", "rules/blue:p:1", "")
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("DELETE", "endpointGroups/blue:back", "")
	b.ok("DELETE", "policys/blue:p", "")
	b.ok("DELETE", "networks/blue:web", "")
	b.ok("DELETE", "networks/red:lan", "")
	b.ok("DELETE", "tenants/red", "")
	b.ok("DELETE", "tenants/blue", "")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Error(diff)
	}
}

func TestNetworkStateHasTheDocumentedForm(t *testing.T) {
	b := ready(t)
	got := b.ok("POST", "networks/blue:web", web)
	const want = `{"key":"blue:web","encap":"vxlan","gateway":"10.7.0.254","networkName":"web","nwType":"data","subnet":"10.7.0.0/24",` +
		`"tenantName":"blue","link-sets":{},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`
	if got != want {
		t.Errorf("created\n%s\nwant\n%s", got, want)
	}
	kv, err := b.db.Get(t.Context(), mastercfg.NetworkPrefix+"web.blue")
	if err != nil {
		t.Fatal(err)
	}
	const wantRecord = `{"id":"web.blue","tenant":"blue","networkName":"web","nwType":"data","pktTagType":"vxlan","pktTag":1,"extPktTag":1,` +
		`"subnetIP":"10.7.0.0","subnetLen":24,"gateway":"10.7.0.254","ipAddrRange":"10.7.0.0-10.7.0.255","epAddrCount":0,"epCount":0,` +
		`"ipAllocMap":"AAAAAAAAAAA=",` +
		`"ipv6SubnetIP":"","ipv6SubnetLen":0,"ipv6Gateway":"","ipv6AllocMap":null,"ipv6LastHost":"","networkTag":"web.blue"}`
	if diff := cmp.Diff(wantRecord, string(kv.Value)); diff != "" {
		t.Error(diff)
	}
}

func TestLinksAreSymmetric(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`)
	b.ok("POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"allow","fromEndpointGroup":"front"}`)
	var tenant contivmodel.Tenant
	var network contivmodel.Network
	var group contivmodel.EndpointGroup
	var policy contivmodel.Policy
	var rule contivmodel.Rule
	for path, into := range map[string]any{"tenants/blue": &tenant, "networks/blue:web": &network, "endpointGroups/blue:front": &group,
		"policys/blue:p": &policy, "rules/blue:p:1": &rule} {
		if err := json.Unmarshal([]byte(b.ok("GET", path, "")), into); err != nil {
			t.Fatal(err)
		}
	}
	link := func(objType, key string) contivmodel.Link { return contivmodel.Link{Type: objType, Key: key} }
	set := func(objType, key string) contivmodel.LinkSet { return contivmodel.LinkSet{key: link(objType, key)} }
	for what, diff := range map[string]string{
		"tenant": cmp.Diff(contivmodel.TenantLinkSets{Networks: set("network", "blue:web"),
			EndpointGroups: set("endpointGroup", "blue:front"), Policies: set("policy", "blue:p")}, tenant.LinkSets),
		"network": cmp.Diff(contivmodel.NetworkLinkSets{EndpointGroups: set("endpointGroup", "blue:front")}, network.LinkSets),
		"group sets": cmp.Diff(contivmodel.EndpointGroupLinkSets{Policies: set("policy", "blue:p"),
			MatchRules: set("rule", "blue:p:1")}, group.LinkSets),
		"group": cmp.Diff(contivmodel.EndpointGroupLinks{Tenant: link("tenant", "blue"), Network: link("network", "blue:web")}, group.Links),
		"policy": cmp.Diff(contivmodel.PolicyLinkSets{EndpointGroups: set("endpointGroup", "blue:front"),
			Rules: set("rule", "blue:p:1")}, policy.LinkSets),
		"rule":      cmp.Diff(contivmodel.RuleLinks{MatchEndpointGroup: link("endpointGroup", "blue:front")}, rule.Links),
		"rule sets": cmp.Diff(contivmodel.RuleLinkSets{Policies: set("policy", "blue:p")}, rule.LinkSets),
	} {
		if diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}
