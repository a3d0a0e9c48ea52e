package api

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// The mode of a tenant is in the record that agents read. Without a mode the tenant and that record are as in
// earlier versions.
func TestAgentsAreToldTheModeOfATenant(t *testing.T) {
	b := ready(t)
	record := func(when, want string) {
		t.Helper()
		_ = b.ledger.View(func(r ledger.Reader) error {
			if got, _ := r.Get(mastercfg.VRFPrefix + "blue"); string(got) != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
			return nil
		})
	}
	record("no mode", `{"id":"blue","vrf":1}`)
	if answer := b.ok("GET", "tenants/blue", ""); strings.Contains(answer, "policyMode") {
		t.Errorf("no mode: %s", answer)
	}
	b.refused("POST", "tenants/blue", `{"tenantName":"blue","policyMode":"last"}`, "policyMode string invalid format", 400, "invalid")
	b.ok("POST", "tenants/blue", `{"tenantName":"blue","policyMode":"final"}`)
	record("final", `{"id":"blue","vrf":1,"policyMode":"final"}`)
	if answer := b.ok("GET", "inspect/tenants/blue", ""); !strings.Contains(answer, `"policyMode":"final"`) {
		t.Errorf("final: %s", answer)
	}
	b.refused("POST", "tenants/blue", `{"tenantName":"blue"}`, "Cant change tenant parameters after its created", 409, "immutable") // by who knows no modes
	record("created again", `{"id":"blue","vrf":1,"policyMode":"final"}`)
	b.applying("", apply("tenant", `{"tenantName":"blue"}`))
	record("as ever", `{"id":"blue","vrf":1}`)
	b.ok("POST", "tenants/green", `{"tenantName":"green","policyMode":"final"}`)
	b.ok("DELETE", "tenants/blue", "")
	record("no tenant", "")
}

// A tenant's administrator cannot bypass the policies of the cluster's operators.
func TestWhoAdministersATenantDoesNotMakeItsRulesFinal(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.want(ann, "POST", "tenants/blue", `{"tenantName":"blue","policyMode":"final"}`, 403, "Insufficient privileges")
	b.want(b.user("op", rights.Grant{Role: rights.Operator, Tenant: rights.Everywhere}), "POST", "tenants/blue", `{"tenantName":"blue","policyMode":"final"}`, 200, "final")
}

// Connections are evaluated again when final rules change, and only then: whatever the change, in the same plan.
func TestConnectionsAreJudgedAnewWhenFinalRulesChange(t *testing.T) {
	b := withGroup(t)
	epoch := func() (e mastercfg.K8sEpoch) {
		_ = b.ledger.View(func(r ledger.Reader) (err error) {
			e, err = ledger.Read[mastercfg.K8sEpoch](r, mastercfg.K8sEpochKey)
			return err
		})
		return e
	}
	const red, blue = "red", "blue"
	rule := func(tenant, id string) string {
		return `{"tenantName":"` + tenant + `","policyName":"p","ruleId":"` + id + `","direction":"in","protocol":"tcp","port":80,"action":"allow"}`
	}
	b.ok("POST", "tenants/blue", `{"tenantName":"blue","policyMode":"final"}`)
	if got := epoch(); got.Number != 0 {
		t.Errorf("nothing is admitted in any epoch, and there is %d", got.Number)
	}
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sEpochKey, mastercfg.K8sEpoch{Number: 5})
	})
	ep := b.endpoint("blue", "web", "front", "c1")
	if got := epoch(); got.Number != 5 {
		t.Errorf("a new endpoint: epoch %d", got.Number)
	}
	for _, step := range []struct {
		name, method, path, body string
		anew                     bool
	}{
		{"another tenant", "POST", "tenants/red", `{"tenantName":"red"}`, false},
		{"its policy", "POST", "policys/red:p", `{"tenantName":"red","policyName":"p"}`, false},
		{"its network", "POST", "networks/red:n", `{"tenantName":"red","networkName":"n","encap":"vxlan","subnet":"10.60.0.0/24"}`, false},
		{"its group", "POST", "endpointGroups/red:g", `{"tenantName":"red","groupName":"g","networkName":"n","policies":["p"]}`, false},
		{"its rule", "POST", "rules/red:p:1", rule(red, "1"), false},
		{"a policy", "POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`, false},
		{"a rule of no group", "POST", "rules/blue:p:1", rule(blue, "1"), false},
		{"now of a group", "POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`, true},
		{"another rule", "POST", "rules/blue:p:2", rule(blue, "2"), true},
		{"its group is another one", "PUT", "", "back", true},
		{"its group is the one before", "PUT", "", "front", true},
		{"a rule goes", "DELETE", "rules/blue:p:2", "", true},
		{"its policy is taken from the group", "POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`, true},
		{"bounds change", "POST", "tenants/blue", `{"tenantName":"blue","policyMode":"final","maxGroups":9}`, false},
		{"the mode changes", "POST", "tenants/blue", `{"tenantName":"blue","maxGroups":9}`, true},
		{"a rule where none is final", "POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`, false},
		{"the mode changes back", "POST", "tenants/blue", `{"tenantName":"blue","policyMode":"final","maxGroups":9}`, true},
		{"the other's", "POST", "tenants/red", `{"tenantName":"red","policyMode":"final"}`, true},
	} {
		before := epoch()
		if step.method == "PUT" {
			b.plan(func(tx *ledger.Tx) error {
				record, err := ledger.Read[mastercfg.CfgEndpointState](tx, mastercfg.EndpointPrefix+ep.ID)
				if err != nil {
					return err
				}
				record.EndpointGroupKey, record.EndpointGroupID = step.body+":blue", len(step.body)
				return ledger.Write(tx, mastercfg.EndpointPrefix+ep.ID, record)
			})
		} else {
			b.ok(step.method, step.path, step.body)
		}
		if after := epoch(); (after != before) != step.anew || after.Number < before.Number {
			t.Errorf("%s: epoch %d after %d; judged anew: want %v", step.name, after.Number, before.Number, step.anew)
		}
	}
}
