package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/fault"
)

// A tenant's administrator cannot take resources from other tenants; an operator may use all of them, and assigns
// them.
func TestWhoAdministersATenantStaysWithinItsBounds(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	op := b.user("op", rights.Grant{Role: rights.Operator, Tenant: rights.Everywhere})
	network := func(name, rest string) string {
		return fmt.Sprintf(`{"tenantName":"blue","networkName":%q,%s}`, name, rest)
	}
	bad := map[string]string{
		"infra": `"encap":"vxlan","nwType":"infra","subnet":"10.20.0.0/24"`,
		"vlan":  `"encap":"vlan","subnet":"10.21.0.0/24"`,
		"tag":   `"encap":"vlan","pktTag":100,"subnet":"10.22.0.0/24"`,
		"vni":   `"encap":"vxlan","pktTag":5000,"subnet":"10.23.0.0/24"`,
	}
	for name, fields := range bad {
		b.want(ann, "POST", "networks/blue:"+name, network(name, fields), 403, "Insufficient privileges")
		code, answer, _ := b.do("POST", "/api/v1/apply", fmt.Sprintf(`{"operations":[{"op":"apply","type":"network","key":"blue:%s","object":%s}]}`, name, network(name, fields)), auth.TokenHeader, ann, "Accept", fault.ProblemType)
		if code != 403 || !strings.Contains(answer, "user/ann may not") {
			t.Errorf("apply of %s: %d %s", name, code, answer)
		}
		b.want(ann, "GET", "networks/blue:"+name, "", 500, "not found")
		b.want(op, "POST", "networks/blue:"+name, network(name, fields), 200, "")
		b.want(op, "DELETE", "networks/blue:"+name, "", 200, "")
	}
	b.want(op, "POST", "networks/blue:infra", network("infra", bad["infra"]), 200, "")
	b.want(ann, "DELETE", "networks/blue:infra", "", 403, "Insufficient privileges") // of which every host has a port
	b.want(op, "DELETE", "networks/blue:infra", "", 200, "")
	b.want(ann, "POST", "tenants/blue", `{"tenantName":"blue","vlans":"1-4094"}`, 403, "")
	b.want(op, "POST", "tenants/blue", `{"tenantName":"blue","vlans":"100-101","vxlans":"5000","maxNetworks":3}`, 200, `"vlans":"100-101"`)
	b.want(op, "POST", "tenants/blue", `{"tenantName":"blue","vlans":"1-","maxNetworks":3}`, 500, "")
	b.want(ann, "POST", "networks/blue:tag", network("tag", bad["tag"]), 200, "")
	b.want(ann, "POST", "networks/blue:vlan", network("vlan", bad["vlan"]), 403, "") // by number only
	b.want(ann, "POST", "networks/blue:other", network("other", `"encap":"vlan","pktTag":102,"subnet":"10.24.0.0/24"`), 403, "")
	b.want(ann, "POST", "networks/blue:vni", network("vni", bad["vni"]), 200, "")
	code, answer, _ := b.do("POST", "networks/blue:green", green, auth.TokenHeader, ann, "Accept", fault.ProblemType)
	if code != 409 || !strings.Contains(answer, "tenant blue may have 3 objects of type network") || !strings.Contains(answer, "exhausted") {
		t.Errorf("the fourth network: %d %s", code, answer)
	}
	b.want(op, "POST", "networks/blue:green", green, 200, "")
	b.want(op, "DELETE", "networks/blue:green", "", 200, "")
	b.want(op, "POST", "tenants/blue", `{"tenantName":"blue","maxNetworks":4}`, 200, "")
	b.want(ann, "POST", "networks/blue:green", green, 200, "")

	const service = `{"tenantName":"blue","serviceName":"s","networkName":"web","ports":["80:80:TCP"],"selectors":["a=b"]%s}`
	for _, more := range []string{`,"externalIps":["192.0.2.1"]`, `,"nodePorts":["30080:80:TCP"]`} {
		b.want(ann, "POST", "serviceLBs/blue:s", fmt.Sprintf(service, more), 403, "")
	}
	b.want(ann, "POST", "serviceLBs/blue:s", fmt.Sprintf(service, ""), 200, "")
	b.want(ann, "POST", "serviceLBs/blue:s", fmt.Sprintf(service, `,"nodePorts":["30080:80:TCP"]`), 403, "")
}

// The id of a network of another tenant may be that of a tenant's own: the names of endpoints that are left of it were told.
func TestEndpointsOfADeletedNetworkAreNamedToOperatorsOnly(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	op := b.user("op", rights.Grant{Role: rights.Operator, Tenant: rights.Everywhere})
	b.want(op, "POST", "tenants/b.blue", `{"tenantName":"b.blue"}`, 200, "")
	b.want(op, "POST", "networks/b.blue:a", `{"tenantName":"b.blue","networkName":"a","nwType":"infra","encap":"vxlan","subnet":"10.8.0.0/24"}`, 200, "")
	b.want("proven:root", "POST", mastercfg.CreateEndpointPath, `{"TenantName":"b.blue","NetworkName":"a","ConfigEP":{"Container":"h1","Host":"h1"}}`, 200, "10.8.")
	b.want(op, "DELETE", "networks/b.blue:a", "", 200, "")
	for token, told := range map[string]bool{ann: false, op: true} {
		code, answer, _ := b.do("POST", "networks/blue:a.b", `{"tenantName":"blue","networkName":"a.b","encap":"vxlan","subnet":"10.9.0.0/24"}`, auth.TokenHeader, token, "Accept", fault.ProblemType)
		if code != 409 || !strings.Contains(answer, "of a deleted network") || strings.Contains(answer, "h1") != told {
			t.Errorf("names of endpoints, want %v: %d %s", told, code, answer)
		}
	}
}

// Hosts get routes to the networks of a tenant with the network contivh1: a tenant's admin could cut them off from
// other destinations, such as their name servers.
func TestWhoAdministersATenantGivesHostsNoRoutes(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	op := b.user("op", rights.Grant{Role: rights.Operator, Tenant: rights.Everywhere})
	network := func(name, rest string) string {
		return fmt.Sprintf(`{"tenantName":"blue","networkName":%q,"encap":"vxlan",%s}`, name, rest)
	}
	const gateway, gateway6 = `"subnet":"198.51.100.0/24","gateway":"198.51.100.254"`, `"ipv6Subnet":"2001:db8:7::/64","ipv6Gateway":"2001:db8:7::fe"`
	b.want(ann, "POST", "networks/blue:before", network("before", gateway), 200, "")
	b.want(ann, "DELETE", "networks/blue:before", "", 200, "")
	b.want(op, "POST", "networks/blue:contivh1", network("contivh1", `"nwType":"infra","subnet":"10.20.0.0/24","gateway":"10.20.0.254"`), 200, "")
	for _, subnet := range []string{gateway, gateway6} {
		code, answer, _ := b.do("POST", "networks/blue:far", network("far", subnet), auth.TokenHeader, ann, "Accept", fault.ProblemType)
		if code != 403 || !strings.Contains(answer, "every host would get a route to it by the network contivh1") {
			t.Errorf("%s: %d %s", subnet, code, answer)
		}
		b.want(op, "POST", "networks/blue:far", network("far", subnet), 200, "")
		b.want(ann, "DELETE", "networks/blue:far", "", 200, "")
	}
	b.want(ann, "POST", "networks/blue:near", network("near", `"subnet":"198.51.100.0/24"`), 200, "") // hosts have no route without a gateway
}

// A client that creates a tenant again without bounds, as clients of the original controller do, does not remove
// them; with If-Match it may.
func TestATenantThatIsCreatedAgainKeepsItsBounds(t *testing.T) {
	b := ready(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue","namespaces":"shop","maxEndpoints":7}`)
	b.refused("POST", "tenants/blue", `{"tenantName":"blue"}`, "Cant change tenant parameters after its created", 409, "immutable")
	if answer := b.ok("GET", "tenants/blue", ""); !strings.Contains(answer, `"maxEndpoints":7`) || !strings.Contains(answer, `"namespaces":"shop"`) {
		t.Errorf("created again: %s", answer)
	}
	b.ok("POST", "tenants/blue", `{"tenantName":"blue","namespaces":"shop","maxEndpoints":8}`) // by who knows them
	if code, answer, _ := b.do("POST", "tenants/blue", `{"tenantName":"blue"}`, "If-Match", "*"); code != 200 || strings.Contains(answer, "maxEndpoints") {
		t.Errorf("by who has seen it: %d %s", code, answer)
	}
	if code, answer, _ := b.do("POST", "tenants/blue", `{"tenantName":"blue"}`, "If-Match", "*"); code != 200 {
		t.Errorf("by him again, with nothing to do: %d %s", code, answer)
	}
	b.refused("POST", "tenants/blue", `{"tenantName":"blue"}`, "Cant change tenant parameters after its created", 409, "immutable")
	b.ok("POST", "tenants/blue", `{"tenantName":"blue","maxEndpoints":7}`)
	b.applying("", apply("tenant", `{"tenantName":"blue"}`))
	if answer := b.ok("GET", "tenants/blue", ""); strings.Contains(answer, "maxEndpoints") {
		t.Errorf("applied: %s", answer)
	}
}

func TestQuotasOfKinds(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","maxGroups":1,"maxRules":1,"maxServices":1}`, 200, "")
	b.want(ann, "POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`, 200, "")
	for i, want := range []int{200, 500} {
		b.want(ann, "POST", fmt.Sprintf("endpointGroups/blue:g%d", i), fmt.Sprintf(`{"tenantName":"blue","groupName":"g%d","networkName":"web"}`, i), want, "")
		b.want(ann, "POST", fmt.Sprintf("rules/blue:p:%d", i), fmt.Sprintf(`{"tenantName":"blue","policyName":"p","ruleId":"%d","direction":"in","protocol":"tcp","action":"allow"}`, i), want, "")
		b.want(ann, "POST", fmt.Sprintf("serviceLBs/blue:s%d", i), fmt.Sprintf(`{"tenantName":"blue","serviceName":"s%d","networkName":"web","ports":["80:80:TCP"],"selectors":["a=b"]}`, i), want, "")
	}
	// existing objects may be changed
	b.want(ann, "POST", "serviceLBs/blue:s0", `{"tenantName":"blue","serviceName":"s0","networkName":"web","ports":["81:80:TCP"],"selectors":["a=b"]}`, 200, "")
	// and a full tenant does not affect others
	eve := b.user("eve", rights.Grant{Role: rights.TenantAdmin, Tenant: "red"})
	b.want(eve, "POST", "endpointGroups/red:g", `{"tenantName":"red","groupName":"g","networkName":"web"}`, 200, "")
}

// A rule counts as often as it is applied: few rules on many groups are many.
func TestRulesAreBoundedByTheGroupsThatTheyAreAppliedTo(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","maxRules":1}`, 200, "")
	rule := func(who, policy, id string, want int, with string) {
		t.Helper()
		b.want(who, "POST", "rules/blue:"+policy+":"+id, fmt.Sprintf(`{"tenantName":"blue","policyName":%q,"ruleId":%q,"direction":"in","protocol":"tcp","action":"allow"}`, policy, id), want, with)
	}
	group := func(who string, n int, policy string, want int, with string) {
		t.Helper()
		b.want(who, "POST", fmt.Sprintf("endpointGroups/blue:g%d", n), fmt.Sprintf(`{"tenantName":"blue","groupName":"g%d","networkName":"web","policies":[%s]}`, n, policy), want, with)
	}
	for _, p := range []string{"p", "q", "empty"} {
		b.want(ann, "POST", "policys/blue:"+p, fmt.Sprintf(`{"tenantName":"blue","policyName":%q}`, p), 200, "")
	}
	rule(ann, "p", "1", 200, "")
	rule("proven:root", "q", "1", 200, "")
	const beyond = "tenant blue may have 10 rules applied to groups"
	for n := range objects.AppliedPerRule {
		group(ann, n, `"p"`, 200, "")
	}
	group(ann, 10, `"p"`, 500, beyond)
	group(ann, 10, `"empty"`, 200, "")
	group(ann, 10, `"empty","p"`, 500, beyond)
	group(ann, 0, `"q"`, 200, "") // instead of p
	group("proven:root", 10, `"p"`, 200, "")
	group(ann, 10, `"p"`, 200, "") // nothing more
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","maxRules":3}`, 200, "")
	rule("proven:root", "p", "2", 200, "")
	group("proven:root", 0, `"p"`, 200, "")
	b.want("proven:root", "DELETE", "rules/blue:q:1", "", 200, "")
	rule(ann, "p", "3", 500, "tenant blue may have 30 rules applied") // 33
}

// Types without a bound of the tenant's own are bounded, too.
func TestEveryTypeOfATenantIsBounded(t *testing.T) {
	for _, kind := range contivmodel.Kinds() {
		if _, limited := objects.Quota(kind.Type, &contivmodel.Tenant{}); kind.OfTenant() != limited {
			t.Errorf("%s is of a tenant: %t, and bounded: %t", kind.Type, kind.OfTenant(), limited)
		}
	}
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	most, _ := objects.Quota("policy", &contivmodel.Tenant{})
	operations := make([]string, most)
	for i := range operations {
		operations[i] = fmt.Sprintf(`{"op":"create","type":"policy","object":{"tenantName":"blue","policyName":"p%d"}}`, i)
	}
	b.want(ann, "POST", rest.ApplyPath, `{"operations":[`+strings.Join(operations, ",")+`]}`, 200, "")
	more := `{"tenantName":"blue","policyName":"more"}`
	b.want(ann, "POST", "policys/blue:more", more, 500, "256 objects of type policy, and has them: an operator can make more")
	b.want("proven:root", "POST", "policys/blue:more", more, 200, "")
}
