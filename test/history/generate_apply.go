package history

import (
	"fmt"

	"github.com/contiv/netplugin/contivmodel"
)

// applicable are the operations of applies: mostly those that usually succeed, since one refusal refuses all.
var applicable = []share{
	{2, (*generator).createTenant},
	{3, (*generator).createNetwork},
	{3, (*generator).deleteNetwork},
	{8, (*generator).postGroup},
	{6, (*generator).deleteGroup},
	{12, (*generator).postPolicy},
	{6, (*generator).deletePolicy},
	{4, (*generator).createRule},
	{8, (*generator).deleteRule},
	{10, (*generator).postNetprofile},
	{5, (*generator).deleteNetprofile},
	{3, (*generator).createContracts},
	{3, (*generator).deleteContracts},
	{4, (*generator).postAppProfile},
	{6, (*generator).deleteAppProfile},
	{6, (*generator).postService},
	{5, (*generator).deleteService},
	{4, (*generator).postBgp},
	{3, (*generator).deleteBgp},
	{2, (*generator).postFabric},
	{1, (*generator).deleteFabric},
}

// apply generates a few operations on objects of one tenant, or replaces a network with its group and its service.
func (g *generator) apply() Operation {
	g.within = g.tenant()
	defer func() { g.within = "" }()
	op := Operation{Verb: Apply, Trial: g.sometimes(6)}
	if g.sometimes(5) {
		op.Members = g.replacement()
		return op
	}
	total := 0
	for _, s := range applicable {
		total += s.weight
	}
	given := map[string]bool{}
	for range 2 + g.IntN(4) {
		at := g.IntN(total)
		for _, s := range applicable {
			if at -= s.weight; at >= 0 {
				continue
			}
			if m := s.make(g); !given[string(m.Verb)+m.storeKey()] {
				given[string(m.Verb)+m.storeKey()] = true
				m.Lenient = m.Verb == Delete && !g.sometimes(5)
				op.Members = append(op.Members, m)
			}
			break
		}
	}
	return op
}

// replacement deletes a network with everything that refers to it and creates all of it again, in an order that
// works only if netmaster sorts the operations.
func (g *generator) replacement() []Operation {
	network, group, service := g.network(), g.group(), g.name("s", services)
	lenient := func(typ, name string) Operation {
		op := g.delete(typ, g.within+":"+name)
		op.Lenient = true
		return op
	}
	s, place := oneOf(g, g.scale.shapes), g.place(network)
	return []Operation{
		lenient("network", network), lenient("endpointGroup", group), lenient("serviceLB", service),
		g.post(&contivmodel.EndpointGroup{TenantName: g.within, GroupName: group, NetworkName: network, Policies: g.some("p", policies, 1)}, ""),
		g.post(&contivmodel.ServiceLB{TenantName: g.within, ServiceName: service, NetworkName: network, Ports: []string{"80:8080:TCP"}, Selectors: []string{oneOf(g, labels)}}, ""),
		g.post(&contivmodel.Network{TenantName: g.within, NetworkName: network, NwType: "data", Encap: "vxlan",
			Subnet: fill(s.subnet, place), Gateway: fill(s.gateway, place)}, s.wrong),
	}
}

// largeApply creates a policy with very many rules, ensures that it exists, or deletes it. The names are so long
// that it does not fit into one transaction.
func (g *generator) largeApply() Operation {
	policy := contivmodel.Policy{TenantName: g.tenant(), PolicyName: "large"}
	if g.sometimes(3) {
		op := g.delete("policy", policy.ModelKey())
		op.Guarded, op.Lenient = false, true
		return Operation{Verb: Apply, Members: []Operation{op}}
	}
	op := Operation{Verb: Apply, Members: []Operation{g.post(&policy, "")}}
	for i := range largeObjects - 1 {
		op.Members = append(op.Members, g.post(&contivmodel.Rule{
			TenantName: policy.TenantName, PolicyName: policy.PolicyName, RuleID: fmt.Sprintf("l%060d", i), Direction: "in",
			Protocol: "tcp", Port: 1 + i, Priority: 1 + i%100, Action: "allow"}, ""))
	}
	for i := range op.Members {
		op.Members[i].Guarded = false // else a changed one refuses all
	}
	return op
}

func (g *generator) postFabric() Operation {
	return g.post(&contivmodel.AciGw{Name: "aciGw", EnforcePolicies: oneOf(g, []string{"yes", "no"}), IncludeCommonTenant: "no", PhysicalDomain: "d"}, "")
}

func (g *generator) deleteFabric() Operation { return g.delete("aciGw", "aciGw") }
