package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

const (
	globalRest = `"name":"global","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"`
	inFabric   = `{"networkInfraType":"aci",` + globalRest + `}`
	noFabric   = `{"networkInfraType":"default",` + globalRest + `}`
	lan        = `{"tenantName":"blue","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24"}`
)

// fabric begins with a VLAN network of the tenant blue in a fabric.
func fabric(t testing.TB) *bench {
	b := booted(t)
	b.ok("POST", "globals/global", inFabric)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:lan", lan)
	return b
}

func (b *bench) group(name string) mastercfg.EndpointGroupState {
	b.Helper()
	return record[mastercfg.EndpointGroupState](b, mastercfg.EndpointGroupPrefix+name+":blue")
}

func TestGroupsOfAFabricHaveVLANsOfTheirOwn(t *testing.T) {
	b := fabric(t)
	before := storetest.Dump(t, b.db)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"lan"}`)
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"lan"}`)
	if front, back := b.group("front"), b.group("back"); front.PktTag != 2 || back.PktTag != 3 {
		t.Errorf("VLANs %d and %d; the network has 1", front.PktTag, back.PktTag)
	}
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"lan"}`)
	if got := b.group("front").PktTag; got != 2 {
		t.Errorf("VLAN %d, want the freed one", got)
	}
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("DELETE", "endpointGroups/blue:back", "")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
	b.ok("POST", "networks/blue:web", web)
	b.refused("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`,
		"network type must be VLAN for ACI mode", 409, "mode")
}

func TestAGroupOlderThanTheFabricReturnsNoVLAN(t *testing.T) {
	b := booted(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:lan", lan)
	before := storetest.Dump(t, b.db)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"lan"}`)
	b.ok("POST", "globals/global", inFabric)
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("POST", "globals/global", noFabric)
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestEndpointsOfAFabricWithoutAGroupGetTheDefaultOne(t *testing.T) {
	b := fabric(t)
	b.refused("POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"lan","ConfigEP":{"Container":"c1"}}`,
		"endpoint c1: key not found: group default-group of tenant blue", 422, "missing-reference")
	b.ok("POST", "endpointGroups/blue:default-group", `{"tenantName":"blue","groupName":"default-group","networkName":"lan"}`)
	if ep := b.endpoint("blue", "lan", "", "c1"); ep.EndpointGroupKey != "default-group:blue" || ep.ServiceName != "default-group" {
		t.Errorf("endpoint of group %s, service %s", ep.EndpointGroupKey, ep.ServiceName)
	}
}

func TestAFabricEnforcesRulesItself(t *testing.T) {
	b := booted(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:lan", lan)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"deny"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"lan","policies":["p"]}`)
	before := storetest.Dump(t, b.db)
	rules := func() int {
		kvs, _, err := b.db.List(t.Context(), mastercfg.PolicyRulePrefix)
		if err != nil {
			t.Fatal(err)
		}
		return len(kvs)
	}
	b.ok("POST", "globals/global", inFabric)
	b.ok("POST", "rules/blue:p:2", `{"tenantName":"blue","policyName":"p","ruleId":"2","direction":"in","action":"allow"}`)
	if n := rules(); n != 0 {
		t.Errorf("%d rules in a fabric", n)
	}
	b.ok("POST", "globals/global", noFabric)
	if n := rules(); n != 2 {
		t.Errorf("%d rules without a fabric", n)
	}
	b.ok("DELETE", "rules/blue:p:2", "")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}
