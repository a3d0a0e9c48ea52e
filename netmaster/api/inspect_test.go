package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// inspected returns the run-time part of an inspect answer.
func inspected[T any](b *bench, path string) T {
	b.Helper()
	var answer struct{ Oper T }
	if err := json.Unmarshal([]byte(b.ok("GET", "inspect/"+path, "")), &answer); err != nil {
		b.Fatal(err)
	}
	return answer.Oper
}

func TestInspectReportsWhatThereIs(t *testing.T) {
	b := booted(t, func(c *Config) { c.ClusterMode = "docker" })
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "networks/blue:lan", `{"tenantName":"blue","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24","pktTag":100}`)
	b.ok("POST", "networks/blue:dmz", `{"tenantName":"blue","networkName":"dmz","encap":"vlan","subnet":"10.9.0.0/24","cfgdTag":"outside"}`)
	b.ok("POST", "netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold"}`)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front",
		`{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"],"ipPool":"10.7.0.10-10.7.0.12","cfgdTag":"edge"}`)
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"lan","policies":["p"]}`)
	b.ok("POST", "appProfiles/blue:app", `{"tenantName":"blue","appProfileName":"app"}`)
	b.ok("POST", "serviceLBs/blue:lb", lb)
	b.endpoint("blue", "web", "front", "c1")
	b.endpoint("blue", "web", "", "c2")
	b.endpoint("blue", "lan", "back", "c3")

	view := func(network, container, group string, id int, ip, mac string) contivmodel.EndpointOper {
		ep := contivmodel.EndpointOper{Network: network, EndpointID: container, ServiceName: group, EndpointGroupID: id,
			IPAddress: []string{ip, ""}, MacAddress: mac, HomingHost: "h1", Labels: "map[]"}
		if group != "" {
			ep.EndpointGroupKey = group + ":blue"
		}
		return ep
	}
	c1 := view("web.blue", "c1", "front", 1, "10.7.0.10", "02:02:0a:07:00:0a")
	c2 := view("web.blue", "c2", "", 0, "10.7.0.2", "02:02:0a:07:00:02")
	c3 := view("lan.blue", "c3", "back", 2, "10.8.0.1", "02:02:0a:08:00:01")
	// The network of the service has three addresses in use, and the range of the group is reserved.
	webOper := contivmodel.NetworkOper{PktTag: 1, ExternalPktTag: 1, NetworkTag: "web.blue", NumEndpoints: 2, AllocatedAddressesCount: 3,
		AllocatedIPAddresses: "10.7.0.1-10.7.0.2, 10.7.0.10-10.7.0.12, 10.7.0.254",
		AvailableIPAddresses: "10.7.0.3-10.7.0.9, 10.7.0.13-10.7.0.253", Endpoints: []contivmodel.EndpointOper{c1, c2}}
	lanOper := contivmodel.NetworkOper{PktTag: 100, NetworkTag: "lan.blue", NumEndpoints: 1, AllocatedAddressesCount: 1,
		AllocatedIPAddresses: "10.8.0.1", AvailableIPAddresses: "10.8.0.2-10.8.0.254", Endpoints: []contivmodel.EndpointOper{c3}}
	dmzOper := contivmodel.NetworkOper{PktTag: 1, NetworkTag: "outside", AvailableIPAddresses: "10.9.0.1-10.9.0.254"}
	frontOper := contivmodel.EndpointGroupOper{PktTag: 1, ExternalPktTag: 1, GroupTag: "edge", NumEndpoints: 1,
		AllocatedIPAddresses: "10.7.0.10", AvailableIPAddresses: "10.7.0.11-10.7.0.12", Endpoints: []contivmodel.EndpointOper{c1}}
	backOper := contivmodel.EndpointGroupOper{PktTag: 100, GroupTag: "back.blue", NumEndpoints: 1, Endpoints: []contivmodel.EndpointOper{c3}}

	for what, diff := range map[string]string{
		"global": cmp.Diff(contivmodel.GlobalOper{ClusterMode: "docker", NumNetworks: 3, VlansInUse: "1, 100", VxlansInUse: "1"},
			inspected[contivmodel.GlobalOper](b, "globals/global")),
		"network web": cmp.Diff(webOper, inspected[contivmodel.NetworkOper](b, "networks/blue:web")),
		"network lan": cmp.Diff(lanOper, inspected[contivmodel.NetworkOper](b, "networks/blue:lan")),
		"group front": cmp.Diff(frontOper, inspected[contivmodel.EndpointGroupOper](b, "endpointGroups/blue:front")),
		"group back":  cmp.Diff(backOper, inspected[contivmodel.EndpointGroupOper](b, "endpointGroups/blue:back")),
		"policy": cmp.Diff(contivmodel.PolicyOper{NumEndpoints: 2, Endpoints: []contivmodel.EndpointOper{c1, c3}},
			inspected[contivmodel.PolicyOper](b, "policys/blue:p")),
		"service": cmp.Diff(contivmodel.ServiceLBOper{ServiceVip: "10.7.0.1"}, inspected[contivmodel.ServiceLBOper](b, "serviceLBs/blue:lb")),
	} {
		if diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	bare := func(g contivmodel.EndpointGroupOper) contivmodel.EndpointGroupOper {
		g.AllocatedIPAddresses, g.AvailableIPAddresses, g.GroupTag = "", "", ""
		return g
	}
	want := contivmodel.TenantOper{
		TotalNetworks: 3, TotalEPGs: 2, TotalNetprofiles: 1, TotalPolicies: 1, TotalAppProfiles: 1, TotalServicelbs: 1, TotalEndpoints: 3,
		Networks:       []contivmodel.NetworkOper{dmzOper, lanOper, webOper},
		EndpointGroups: []contivmodel.EndpointGroupOper{bare(backOper), bare(frontOper)},
	}
	if diff := cmp.Diff(want, inspected[contivmodel.TenantOper](b, "tenants/blue")); diff != "" {
		t.Errorf("tenant: %s", diff)
	}
}

func TestInspectNeedsTheDerivedRecord(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "serviceLBs/blue:lb", lb)
	for _, c := range []struct{ key, path, missing string }{
		{mastercfg.ServiceLBPrefix + "lb:blue", "inspect/serviceLBs/blue:lb", "service lb:blue"},
		{mastercfg.EndpointGroupPrefix + "front:blue", "inspect/endpointGroups/blue:front", "group front:blue"},
		{mastercfg.NetworkPrefix + "web.blue", "inspect/networks/blue:web", "network web.blue"},
	} {
		b.drop(c.key)
		b.refused("GET", c.path, "", "key not found: "+c.missing, 404, "not-found")
	}
}
