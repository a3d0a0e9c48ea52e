package contivmodel

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRelationsHaveADirection(t *testing.T) {
	tenant := &Tenant{TenantName: "blue"}
	network := &Network{TenantName: "blue", NetworkName: "web"}
	policy := &Policy{TenantName: "blue", PolicyName: "p"}
	rule := &Rule{TenantName: "blue", PolicyName: "p", RuleID: "1"}
	group := &EndpointGroup{TenantName: "blue", GroupName: "front"}
	tenant.LinkSets.Networks.Add(network)
	group.Links.Network, group.Links.Tenant = LinkTo(network), LinkTo(tenant)
	group.LinkSets.Policies.Add(policy)
	group.LinkSets.MatchRules.Add(rule)
	rule.LinkSets.Policies.Add(policy)
	for _, c := range []struct {
		object Object
		want   []Relation
	}{
		{tenant, []Relation{{"Networks", false, []Link{{"network", "blue:web"}}}}},
		{group, []Relation{
			{"MatchRules", false, []Link{{"rule", "blue:p:1"}}}, {"Policies", true, []Link{{"policy", "blue:p"}}},
			{"Network", true, []Link{{"network", "blue:web"}}}, {"Tenant", true, []Link{{"tenant", "blue"}}},
		}},
		{rule, []Relation{{"Policies", true, []Link{{"policy", "blue:p"}}}}},
		{&Global{Name: "global"}, nil},
	} {
		if diff := cmp.Diff(c.want, Relations(c.object)); diff != "" {
			t.Errorf("%s: %s", c.object.ModelType(), diff)
		}
	}
}
