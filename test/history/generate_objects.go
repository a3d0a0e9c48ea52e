package history

import (
	"fmt"

	"github.com/contiv/netplugin/contivmodel"
)

func (g *generator) createTenant() Operation {
	return g.post(tenantNamed(g.name("t", tenants)), "")
}

// tenantNamed returns the tenant with a name, always the same: creating it again changes nothing. Rules of every
// other one are final.
func tenantNamed(name string) *contivmodel.Tenant {
	t := &contivmodel.Tenant{TenantName: name}
	if name[len(name)-1]%2 == 1 {
		t.PolicyMode = "final"
	}
	return t
}

func (g *generator) deleteTenant() Operation { return g.delete("tenant", g.name("t", tenants)) }

func (g *generator) createNetwork() Operation {
	name := g.network()
	if g.sometimes(20) {
		name = g.group() // clashes with a group
	}
	s, place := oneOf(g, g.scale.shapes), g.place(name)
	n := &contivmodel.Network{
		TenantName: g.tenant(), NetworkName: name, NwType: "data", Encap: oneOf(g, []string{"vlan", "vxlan"}),
		Subnet: fill(s.subnet, place), Gateway: fill(s.gateway, place),
		Ipv6Subnet: fill(s.ipv6Subnet, place), Ipv6Gateway: fill(s.ipv6Gateway, place),
	}
	if g.sometimes(10) {
		n.NwType = "infra"
	}
	if g.sometimes(8) {
		n.CfgdTag = "tag"
	}
	if g.sometimes(3) {
		n.PktTag = 8 + g.IntN(12)
		if n.Encap == "vxlan" {
			n.PktTag += 88
		}
	}
	return g.post(n, s.wrong)
}

func (g *generator) deleteNetwork() Operation {
	return g.delete("network", g.tenant()+":"+g.network())
}

func (g *generator) postGroup() Operation {
	group, name := g.group(), g.home()
	if g.sometimes(20) {
		group = g.network() // clashes with a network
	}
	e := &contivmodel.EndpointGroup{
		TenantName: g.tenant(), GroupName: group, NetworkName: name, Policies: g.some("p", policies, 2),
	}
	if g.sometimes(3) {
		e.IPPool = fill(oneOf(g, pools), g.place(name))
	}
	if g.sometimes(3) {
		e.NetProfile = g.name("f", profiles)
	}
	if g.sometimes(5) {
		e.ExtContractsGrps = g.some("x", contracts, 2)
	}
	if g.sometimes(8) {
		e.CfgdTag = "tag"
	}
	return g.post(e, "")
}

func (g *generator) deleteGroup() Operation {
	return g.delete("endpointGroup", g.tenant()+":"+g.group())
}

func (g *generator) postPolicy() Operation {
	return g.post(&contivmodel.Policy{TenantName: g.tenant(), PolicyName: g.policy()}, "")
}

func (g *generator) deletePolicy() Operation { return g.delete("policy", g.tenant()+":"+g.policy()) }

func (g *generator) createRule() Operation {
	s := oneOf(g, ruleShapes)
	r := &contivmodel.Rule{
		TenantName: g.tenant(), PolicyName: g.policy(), RuleID: g.name("r", rules), Direction: s.direction,
		Protocol: s.protocol, Port: s.port, Priority: s.priority, Action: oneOf(g, []string{"allow", "deny"}),
	}
	group, network, address := &r.FromEndpointGroup, &r.FromNetwork, &r.FromIPAddress
	if s.direction == "out" {
		group, network, address = &r.ToEndpointGroup, &r.ToNetwork, &r.ToIPAddress
	}
	if s.peer == "group" || s.peer == "group+address" || s.peer == "two" {
		*group = g.group()
	}
	if s.peer == "network" || s.peer == "two" {
		*network = g.network()
	}
	if s.peer == "address" || s.peer == "group+address" {
		*address = oneOf(g, []string{"192.0.2.7", "192.0.2.0/24", "10.1.0.4", "10.1.0.5/32", "2001:db8:1::2", "2001:db8:1::/64"})
	}
	switch s.peer {
	case "own":
		r.ToIPAddress = fmt.Sprintf("10.%d.0.%d", g.IntN(g.scale.networks), 1+g.IntN(5))
	case "from":
		r.FromIPAddress = "192.0.2.1"
	}
	return g.post(r, s.wrong)
}

func (g *generator) deleteRule() Operation {
	return g.delete("rule", g.tenant()+":"+g.policy()+":"+g.name("r", rules))
}

func (g *generator) postNetprofile() Operation {
	p := &contivmodel.Netprofile{
		TenantName: g.tenant(), ProfileName: g.name("f", profiles),
		Bandwidth: oneOf(g, []string{"", "10 mbps", "20 gbps"}), DSCP: g.IntN(64), Burst: g.IntN(6),
	}
	if p.Burst == 1 {
		return g.post(p, "burst of less than a packet")
	}
	return g.post(p, "")
}

func (g *generator) deleteNetprofile() Operation {
	return g.delete("netprofile", g.tenant()+":"+g.name("f", profiles))
}

func (g *generator) createContracts() Operation {
	c := &contivmodel.ExtContractsGroup{
		TenantName: g.tenant(), ContractsGroupName: g.name("x", contracts),
		ContractsType: oneOf(g, []string{"provided", "consumed"}), Contracts: []string{"uni/tn-a/brc-b"},
	}
	if g.sometimes(8) {
		c.ContractsType = "other"
		return g.post(c, "type of contracts")
	}
	return g.post(c, "")
}

func (g *generator) deleteContracts() Operation {
	return g.delete("extContractsGroup", g.tenant()+":"+g.name("x", contracts))
}

func (g *generator) postAppProfile() Operation {
	return g.post(&contivmodel.AppProfile{
		TenantName: g.tenant(), AppProfileName: g.name("a", profiles), EndpointGroups: g.some("g", groups, 2),
	}, "")
}

func (g *generator) deleteAppProfile() Operation {
	return g.delete("appProfile", g.tenant()+":"+g.name("a", profiles))
}

func (g *generator) postService() Operation {
	network := g.home()
	s := &contivmodel.ServiceLB{
		TenantName: g.tenant(), ServiceName: g.name("s", services), NetworkName: network,
		Ports: []string{oneOf(g, []string{"80:8080:TCP", "53:53:udp"})}, Selectors: []string{oneOf(g, labels)},
	}
	if g.sometimes(4) {
		s.IPAddress = fmt.Sprintf("10.%d.0.%d", g.place(network), g.IntN(8))
	}
	if g.sometimes(12) {
		s.Ports = []string{"80:8080"}
		return g.post(s, "port")
	}
	return g.post(s, "")
}

func (g *generator) deleteService() Operation {
	return g.delete("serviceLB", g.tenant()+":"+g.name("s", services))
}

func (g *generator) postBgp() Operation {
	return g.post(&contivmodel.Bgp{
		Hostname: g.name("h", hosts), Routerip: fmt.Sprintf("192.0.2.%d/24", 1+g.IntN(9)), As: "65002",
		Neighbor: "192.0.2.254", NeighborAs: oneOf(g, []string{"65000", "65001"}),
		Neighbors: oneOf(g, [][]string{nil, {"192.0.2.253=65000"}}),
	}, "")
}

func (g *generator) deleteBgp() Operation { return g.delete("Bgp", g.name("h", hosts)) }

func (g *generator) updateGlobal() Operation {
	o := &contivmodel.Global{
		Name: "global", FwdMode: oneOf(g, []string{"", "routing"}), ArpMode: oneOf(g, []string{"", "proxy", "flood"}),
		PvtSubnet: "172.19.0.0/16", Vlans: oneOf(g, g.scale.vlanRanges), Vxlans: oneOf(g, g.scale.vxlanRanges),
	}
	wrong := ""
	switch g.IntN(8) {
	case 0:
		o.PvtSubnet = "172.20.0.0/16"
	case 1:
		o.Vlans, wrong = "30-20", "range backwards"
	}
	return g.post(o, wrong)
}
