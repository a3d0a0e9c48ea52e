package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// refusal is a request that must be refused, and its answer.
type refusal struct {
	method, path, body string
	text               string
	code               int
	reason             string
}

func (b *bench) refuseAll(all []refusal) {
	b.Helper()
	for _, r := range all {
		b.refused(r.method, r.path, r.body, r.text, r.code, r.reason)
	}
}

func TestTenantRefusals(t *testing.T) {
	b := ready(t)
	b.refuseAll([]refusal{
		{"POST", "tenants/green", `{"tenantName":"red"}`, "Invalid Key", 400, "invalid"},
		{"POST", "tenants/a_b", `{"tenantName":"a_b"}`, "tenantName string invalid format", 400, "invalid"},
		{"POST", "tenants/blue", `{"tenantName":"blue"}`, "Cant change tenant parameters after its created", 409, "immutable"},
		{"GET", "tenants/green", "", "tenant not found", 404, "not-found"},
		{"GET", "inspect/tenants/green", "", "tenant not found", 404, "not-found"},
		{"DELETE", "tenants/green", "", "tenant not found", 404, "not-found"},
	})
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.refused("DELETE", "tenants/blue", "", "cannot delete blue has 1 policies", 409, "in-use")
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`)
	b.refused("DELETE", "tenants/blue", "", "cannot delete blue has 1 endpoint groups", 409, "in-use")
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("DELETE", "policys/blue:p", "")
	b.refused("DELETE", "tenants/blue", "", "cannot delete blue has 1 networks", 409, "in-use")
}

func TestTenantIsHeldByObjectsOfOtherKinds(t *testing.T) {
	for _, c := range []struct{ objType, text string }{
		{"appProfile", "cannot delete blue, has 1 app profiles"},
		{"netprofile", "Cannot delete blue has 1 netprofiles"},
		{"serviceLB", "cannot delete blue has 1 services"},
		{"extContractsGroup", "cannot delete blue has 1 external contract groups"},
	} {
		b := ready(t)
		b.store(mastercfg.ModelKey(c.objType, "blue:x"), `{"key":"blue:x"}`)
		b.refused("DELETE", "tenants/blue", "", c.text, 409, "in-use")
	}
}

func TestNetworkRefusals(t *testing.T) {
	b := ready(t)
	net := func(members string) string {
		return `{"tenantName":"blue","networkName":"n","encap":"vxlan","subnet":"10.8.0.0/24",` + members + `"x":0}`
	}
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "networks/blue:six", `{"tenantName":"blue","networkName":"six","encap":"vlan","subnet":"10.6.0.0/24","ipv6Subnet":"2001:db8::/64","pktTag":77}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`)
	b.refuseAll([]refusal{
		{"POST", "networks/blue:n", net(`"encap":"gre",`), "encap string invalid format", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"pktTag":-1,`), "pktTag Value Out of bound", 400, "invalid"},
		{"POST", "networks/green:n", strings.Replace(net(""), "blue", "green", 1), "Tenant not found", 422, "missing-reference"},
		{"POST", "networks/blue:n", net(`"subnet":"10.7.0.128/25",`), "network web conflicts with subnet 10.7.0.0/24", 409, "conflict"},
		{"POST", "networks/blue:n", net(`"ipv6Subnet":"2001:db8::/48",`), "network six conflicts with subnetv6  2001:db8::/64", 409, "conflict"},
		{"POST", "networks/blue:front", strings.Replace(net(""), `"n"`, `"front"`, 1), "EndpointGroup front conflicts with the network name", 409, "conflict"},
		{"POST", "networks/blue:n", net(`"subnet":"10.8.0.9-10.8.0.3/24",`), "Network subnet format not valid", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"subnet":"10.0.0.0/7",`), "subnet length 7 not supported", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"gateway":"10.9.0.1",`), "hostIP 10.9.0.1 is exceeding beyond subnet 10.8.0.0/24, hostID 65537", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"ipv6Subnet":"2001:db9::/64","ipv6Gateway":"2001:dba::1",`), "ipv6 gateway 2001:dba::1 is not in subnet 2001:db9::/64", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"subnet":"10.8.0.9-10.8.1.3/24",`), "Network subnet format not valid", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"ipv6Subnet":"2001:db9::/15",`), "subnet length 15 not supported", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"pktTag":1,`), "requested vxlan not available", 409, "conflict"},
		{"POST", "networks/blue:n", net(`"pktTag":10001,`), "requested vxlan not available", 409, "conflict"},
		{"POST", "networks/blue:n", net(`"encap":"vlan","pktTag":77,`), "requested vlan not available - vlan:77", 409, "conflict"},
		{"POST", "networks/blue:web", web, "Cant change network parameters after its created", 409, "immutable"},
		{"DELETE", "networks/blue:web", "", "cannot delete web has 1 endpoint groups", 409, "in-use"},
		{"DELETE", "networks/blue:none", "", "network not found", 404, "not-found"},
	})
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.endpoint("blue", "web", "", "c1")
	b.refused("DELETE", "networks/blue:web", "", "Error: Network has active endpoints", 409, "in-use")
	b.noEndpoint("blue", "web", "c1")
	b.ok("DELETE", "networks/blue:web", "")
}

func TestNetworksWaitForTheGlobalObject(t *testing.T) {
	b := start(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.refused("POST", "networks/blue:web", web, "Global configuration is not ready: there is no global object", 409, "mode")
	lan := with(web)(`,"encap":"vlan"`)
	for _, c := range []struct{ global, network, lacks string }{
		{`{"key":"global","name":"global","vlans":"1-9","vxlans":"1-9"}`, web, "forwarding mode"},
		{`{"key":"global","name":"global","fwdMode":"routing","vlans":"1-9"}`, web, "vxlan range"},
		{`{"key":"global","name":"global","fwdMode":"routing","vxlans":"1-9"}`, lan, "vlan range"},
	} {
		b.store(mastercfg.ModelKey("global", "global"), c.global)
		b.refused("POST", "networks/blue:web", c.network, "Global configuration is not ready: "+c.lacks+" is not set", 409, "mode")
	}
}

func TestVNIsBelowTheRangeAreOutOfIt(t *testing.T) {
	b := ready(t)
	b.ok("POST", "globals/global", `{"name":"global","vlans":"1-4094","vxlans":"100-200","pvtSubnet":"172.19.0.0/16"}`)
	for tag, text := range map[string]string{"99": "requested vxlan is out of range", "1": "requested vxlan is out of range",
		"201": "requested vxlan not available", "16777216": "requested vxlan not available"} {
		b.refused("POST", "networks/blue:web", with(web)(`,"pktTag":`+tag), text, 409, "conflict")
	}
	b.ok("POST", "networks/blue:web", with(web)(`,"pktTag":100`))
}

func TestNetworksWhoseDottedNamesGiveOneIDAreToldApart(t *testing.T) {
	b := ready(t)
	b.ok("POST", "tenants/b.blue", `{"tenantName":"b.blue"}`)
	b.ok("POST", "networks/blue:a.b", `{"tenantName":"blue","networkName":"a.b","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.refused("POST", "networks/b.blue:a", `{"tenantName":"b.blue","networkName":"a","encap":"vxlan","subnet":"10.8.0.0/24"}`,
		"network id a.b.blue is taken, by a network of another tenant: use another name", 409, "conflict")
}

func TestInfraNetworkGoesBeforeItsEndpoints(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:contivh1", `{"tenantName":"blue","networkName":"contivh1","nwType":"infra","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.endpoint("blue", "contivh1", "", "h1")
	b.ok("DELETE", "networks/blue:contivh1", "")
	again := `{"tenantName":"blue","networkName":"contivh1","encap":"vxlan","subnet":"10.9.0.0/24"}`
	b.refused("POST", "networks/blue:contivh1", again,
		"network id contivh1.blue is in use by 1 endpoints of a deleted network", 409, "in-use")
	b.noEndpoint("blue", "contivh1", "h1")
	b.ok("POST", "networks/blue:contivh1", again)
}

func TestGroupRefusals(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	group := func(name, members string) string {
		return `{"tenantName":"blue","groupName":"` + name + `","networkName":"web",` + members + `"x":0}`
	}
	b.refuseAll([]refusal{
		{"POST", "endpointGroups/green:g", `{"tenantName":"green","groupName":"g","networkName":"web"}`, "Tenant not found", 422, "missing-reference"},
		{"POST", "endpointGroups/blue:g", group("g", `"networkName":"none",`), "Network none not found", 422, "missing-reference"},
		{"POST", "endpointGroups/blue:web", group("web", ""), "Network web conflicts with the endpointGroup name", 409, "conflict"},
		{"POST", "endpointGroups/blue:g", group("g", `"ipPool":"10.7.0.9-10.7.0.8",`), "invalid ip-pool 10.7.0.9-10.7.0.8", 400, "invalid"},
		{"POST", "endpointGroups/blue:g", group("g", `"ipPool":"10.8.0.1-10.8.0.9",`), "bad ip-pool 10.8.0.1-10.8.0.9, EPG ip-pool must be a subset of network 10.7.0.0/24", 400, "invalid"},
		{"POST", "endpointGroups/blue:g", group("g", `"ipPool":"10.7.0.250-10.7.0.254",`), "ip address 10.7.0.254 is not available", 409, "conflict"},
		{"POST", "endpointGroups/blue:g", group("g", `"policies":["p","none"],`), "Policy not found", 422, "missing-reference"},
		{"POST", "endpointGroups/blue:g", group("g", `"policies":["p","p"],`), "Epg policy exists", 409, "conflict"},
		{"POST", "endpointGroups/blue:g", group("g", `"policies":["p"],"netProfile":"none",`), "netprofile not found", 422, "missing-reference"},
		{"POST", "endpointGroups/blue:g", group("g", `"extContractsGrps":["none"],`), "External contracts group none not found", 422, "missing-reference"},
	})
	b.ok("POST", "endpointGroups/blue:g", group("g", `"ipPool":"10.7.0.10-10.7.0.20",`))
	b.ok("POST", "networks/blue:other", `{"tenantName":"blue","networkName":"other","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.refuseAll([]refusal{
		{"POST", "endpointGroups/blue:g", group("g", `"networkName":"other",`), "Cannot change network association after epg is created.", 409, "immutable"},
		{"POST", "endpointGroups/blue:g", group("g", `"ipPool":"10.7.0.10-10.7.0.21",`), "Cannot change IP pool after epg is created.", 409, "immutable"},
		{"POST", "endpointGroups/blue:g", group("g", ""), "Cannot change IP pool after epg is created.", 409, "immutable"},
		{"POST", "endpointGroups/blue:g", group("g", `"ipPool":"10.7.0.10-10.7.0.20","policies":["none"],`), "Policy not found", 422, "missing-reference"},
	})
	b.endpoint("blue", "web", "g", "c1")
	b.refused("DELETE", "endpointGroups/blue:g", "", "Error: EPG g has active endpoints", 409, "in-use")
	b.noEndpoint("blue", "web", "c1")
	b.ok("POST", "appProfiles/blue:a", `{"tenantName":"blue","appProfileName":"a","endpointGroups":["g"]}`)
	b.refused("DELETE", "endpointGroups/blue:g", "", "Cannot delete g, associated to appProfile blue:a", 409, "in-use")
}

func TestPolicyAndRuleRefusals(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`)
	rule := func(members string) string {
		return `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"allow",` + members + `"x":0}`
	}
	b.refuseAll([]refusal{
		{"POST", "policys/green:p", `{"tenantName":"green","policyName":"p"}`, "Tenant not found", 422, "missing-reference"},
		{"DELETE", "policys/blue:p", "", "Policy is being used", 409, "in-use"},
		{"POST", "rules/blue:p:1", rule(`"priority":101,`), "priority Value Out of bound", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"port":70000,`), "port Value Out of bound", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"port":-1,`), "port Value Out of bound", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"protocol":"256",`), "protocol string invalid format", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"direction":"both",`), "direction string invalid format", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"fromIpAddress":"10.0.0.1-9",`), "fromIpAddress string invalid format", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"action":"",`), "action string invalid format", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"toNetwork":"web",`), "can not specify 'to' parameters in incoming rule", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"toEndpointGroup":"front",`), "can not specify 'to' parameters in incoming rule", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"fromNetwork":"web","fromIpAddress":"10.0.0.1",`), "can not specify both from network and from ip address", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"fromNetwork":"web","fromEndpointGroup":"front",`), "can not specify both from network and from EndpointGroup", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"direction":"out","fromNetwork":"web",`), "can not specify 'from' parameters in outgoing rule", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"direction":"out","fromEndpointGroup":"front",`), "can not specify 'from' parameters in outgoing rule", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"direction":"out","fromIpAddress":"10.0.0.1",`), "can not specify 'from' parameters in outgoing rule", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"direction":"out","toNetwork":"web","toIpAddress":"10.0.0.1",`), "can not specify both to-network and to-ip address", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"direction":"out","toNetwork":"web","toEndpointGroup":"front",`), "can not specify both to-network and to-EndpointGroup", 400, "invalid"},
		{"POST", "rules/blue:p:1", rule(`"direction":"out","toEndpointGroup":"none",`), "endpoint group not found", 422, "missing-reference"},
		{"POST", "rules/blue:p:1", rule(`"fromEndpointGroup":"none",`), "endpoint group not found", 422, "missing-reference"},
		{"POST", "rules/blue:p:1", rule(`"fromNetwork":"none",`), "from Network not found", 422, "missing-reference"},
		{"POST", "rules/blue:p:1", rule(`"direction":"out","toNetwork":"none",`), "to Network not found", 422, "missing-reference"},
		{"POST", "rules/blue:none:1", rule(`"policyName":"none",`), "Policy not found", 422, "missing-reference"},
		{"POST", "rules/blue:p:1", rule(`"toIpAddress":"10.7.0.77",`), "failed to configure 10.7.0.77, ip address is not in epg front:blue", 400, "invalid"},
	})
	b.ok("POST", "rules/blue:p:1", rule(""))
	b.refused("POST", "rules/blue:p:1", rule(""), "can not update a rule after its created", 409, "immutable")
	b.ok("POST", "policys/blue:free", `{"tenantName":"blue","policyName":"free"}`)
	b.refused("POST", "rules/blue:free:1", rule(`"policyName":"free","toIpAddress":"10.7.0.77",`),
		"failed to configure 10.7.0.77, 0 endpoint groups linked to policy free ", 400, "invalid")
	ep := b.endpoint("blue", "web", "front", "c1")
	b.ok("POST", "rules/blue:p:2", strings.Replace(rule(`"toIpAddress":"`+ep.IPAddress+`",`), `"1"`, `"2"`, 1))
}

func TestGlobalRefusals(t *testing.T) {
	b := ready(t)
	global := func(members string) string {
		return `{"name":"global","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16",` + members + `"x":0}`
	}
	b.refuseAll([]refusal{
		{"POST", "globals/other", `{"name":"other"}`, "name string invalid format", 400, "invalid"},
		{"POST", "globals/global", global(`"vlans":"1-5000",`), "invalid range 1-5000, vlan values exceed 4095 max allowed", 400, "invalid"},
		{"POST", "globals/global", global(`"vlans":"9-2",`), "invalid range 9-2, min is greater than max", 400, "invalid"},
		{"POST", "globals/global", global(`"vlans":"0-9",`), "invalid range 0-9, values less than 1", 400, "invalid"},
		{"POST", "globals/global", global(`"vxlans":"9-2",`), "invalid range 9-2, min is greater than max", 400, "invalid"},
		{"POST", "globals/global", global(`"vxlans":"0-9",`), "invalid range 0-9, values less than 1", 400, "invalid"},
		{"POST", "globals/global", global(`"vxlans":"60000-65536",`), "invalid range 60000-65536, vxlan values exceed 65535 max allowed", 400, "invalid"},
		{"POST", "globals/global", global(`"networkInfraType":"other",`), "networkInfraType string invalid format", 400, "invalid"},
		{"POST", "globals/global", global(`"fwdMode":"other",`), "fwdMode string invalid format", 400, "invalid"},
		{"POST", "globals/global", global(`"arpMode":"other",`), "arpMode string invalid format", 400, "invalid"},
		{"POST", "globals/global", global(`"vxlans":"1-20000",`), "does not allow vxlan range to exceed 16000 range 1-20000", 400, "invalid"},
		{"POST", "globals/global", global(`"pvtSubnet":"172.19.0.0/24",`), "pvtSubnet string invalid format", 400, "invalid"},
		{"POST", "globals/global", global(`"pvtSubnet":"127.19.0.1/16",`), "subnet 127.19.0.0/16 has addresses of 127.0.0.0/8, which are those of each host's loopback: endpoints cannot have them", 400, "invalid"},
	})
	b.ok("DELETE", "globals/global", "")
	b.refused("POST", "globals/global", global(`"pvtSubnet":"224.1.0.0/16",`),
		"subnet 224.1.0.0/16 has addresses of 224.0.0.0/4, which are those of multicast groups: endpoints cannot have them", 400, "invalid")
	b.ok("POST", "globals/global", global(`"fwdMode":"routing",`))
	b.ok("POST", "networks/blue:one", `{"tenantName":"blue","networkName":"one","encap":"vlan","subnet":"10.1.0.0/24","pktTag":10}`)
	b.ok("POST", "networks/blue:two", `{"tenantName":"blue","networkName":"two","encap":"vxlan","subnet":"10.2.0.0/24","pktTag":20}`)
	b.ok("POST", "networks/blue:three", `{"tenantName":"blue","networkName":"three","encap":"vxlan","subnet":"10.3.0.0/24","pktTag":21}`)
	b.refuseAll([]refusal{
		{"POST", "globals/global", global(`"fwdMode":"bridge",`), "Unable to update forwarding mode due to existing 1 vlans and 2 vxlans", 409, "in-use"},
		{"POST", "globals/global", global(`"pvtSubnet":"172.20.0.0/16",`), "Unable to update private subnet due to existing 1 vlans and 2 vxlans", 409, "in-use"},
		{"POST", "globals/global", global(`"vlans":"11-100",`), "cannot update the vlan range due to existing vlans 10", 409, "in-use"},
		{"POST", "globals/global", global(`"vxlans":"1-20",`), "cannot update the vxlan range due to existing vxlans 20-21", 409, "in-use"},
		{"DELETE", "globals/global", "", "cannot delete global due to existing 1 vlans and 2 vxlans", 409, "in-use"},
	})
	b.ok("DELETE", "networks/blue:one", "")
	b.refused("POST", "globals/global", global(`"fwdMode":"bridge",`), "Unable to update forwarding mode due to existing 2 vxlans", 409, "in-use")
	// A global object of before private subnets gets the default one at any time.
	b.store(mastercfg.ModelKey("global", "global"), `{"key":"global","name":"global","fwdMode":"routing","vlans":"1-4094","vxlans":"1-10000"}`)
	b.refused("POST", "globals/global", global(`"pvtSubnet":"172.20.0.0/16",`), "Unable to update private subnet due to existing 2 vxlans", 409, "in-use")
	b.ok("POST", "globals/global", global(""))
	b.ok("DELETE", "networks/blue:two", "")
	b.ok("DELETE", "networks/blue:three", "")
	b.store(mastercfg.ModelKey("Bgp", "h1"), `{"key":"h1"}`)
	b.refused("POST", "globals/global", global(`"fwdMode":"bridge",`), "please delete existing Bgp configs", 409, "in-use")
}

func TestKindsWithoutAHandlerListNothingAndTakeNothing(t *testing.T) {
	b := ready(t)
	for segment, c := range map[string]struct{ objType, body string }{
		"volumes":        {"volume", `{"tenantName":"blue","volumeName":"v"}`},
		"volumeProfiles": {"volumeProfile", `{"tenantName":"blue","volumeProfileName":"v"}`},
	} {
		if got := b.ok("GET", segment, ""); got != "[]" {
			t.Errorf("%s: %s", segment, got)
		}
		b.absent(segment, c.objType, "blue:v")
		b.refused("POST", segment+"/blue:v", c.body, "Invalid object type", 501, "unsupported")
	}
}

// store writes a value that no request would.
func (b *bench) store(key, value string) {
	b.Helper()
	if _, err := b.ledger.Update(b.Context(), func(tx *ledger.Tx) error { tx.Put(key, []byte(value)); return nil }); err != nil {
		b.Fatal(err)
	}
}

// drop deletes a key without the API.
func (b *bench) drop(key string) {
	b.Helper()
	if _, err := b.ledger.Update(b.Context(), func(tx *ledger.Tx) error { tx.Delete(key); return nil }); err != nil {
		b.Fatal(err)
	}
}

// External routers know addresses, and not tenants.
func TestRoutedVLANsOfTenantsDoNotOverlap(t *testing.T) {
	b := ready(t)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	network := func(tenant, name, encap, subnet, subnet6 string) string {
		return fmt.Sprintf(`{"tenantName":%q,"networkName":%q,"encap":%q,"subnet":%q,"ipv6Subnet":%q}`, tenant, name, encap, subnet, subnet6)
	}
	b.ok("POST", "networks/blue:web", network("blue", "web", "vlan", "10.7.0.0/24", "2001:db8:7::/64"))
	const outside = " of network web of tenant blue: routed networks of encapsulation vlan share the addresses outside"
	b.refuseAll([]refusal{
		{"POST", "networks/red:n", network("red", "n", "vlan", "10.7.0.128/25", ""), "subnet 10.7.0.128/25 overlaps 10.7.0.0/24" + outside, 409, "conflict"},
		{"POST", "networks/red:n", network("red", "n", "vlan", "10.0.0.0/8", ""), "subnet 10.0.0.0/8 overlaps 10.7.0.0/24" + outside, 409, "conflict"},
		{"POST", "networks/red:n", network("red", "n", "vlan", "10.8.0.0/24", "2001:db8::/32"), "ipv6Subnet 2001:db8::/32 overlaps 2001:db8:7::/64" + outside, 409, "conflict"},
	})
	b.ok("POST", "networks/red:inner", network("red", "inner", "vxlan", "10.7.0.0/24", "2001:db8:7::/64"))
	b.ok("POST", "networks/red:beside", network("red", "beside", "vlan", "10.7.1.0/24", "2001:db8:8::/64"))
	service := func(external string) string {
		return fmt.Sprintf(`{"tenantName":"red","serviceName":"s","networkName":"inner","ports":["80:80:TCP"],"selectors":["a=b"],"externalIps":[%q]}`, external)
	}
	b.refuseAll([]refusal{
		{"POST", "serviceLBs/red:s", service("10.7.0.80"), "external address 10.7.0.80 is in network inner", 409, "conflict"},
		{"POST", "serviceLBs/red:s", service("10.7.1.80"), "external address 10.7.1.80 is in network beside", 409, "conflict"},
	})
	b.ok("POST", "networks/blue:far", network("blue", "far", "vlan", "10.7.2.0/24", "2001:db8:9::/64"))
	const shared = " of tenant blue: routed networks of encapsulation vlan share the addresses outside"
	b.refuseAll([]refusal{
		{"POST", "serviceLBs/red:s", service("10.7.2.80"), "external address 10.7.2.80 is in network far" + shared, 409, "conflict"},
		{"POST", "serviceLBs/red:s", service("2001:db8:9::80"), "external address 2001:db8:9::80 is in network far" + shared, 409, "conflict"},
	})
	b.ok("DELETE", "networks/blue:far", "")
	b.ok("POST", "serviceLBs/red:s", service("10.7.2.80"))
	b.refused("POST", "networks/blue:far", network("blue", "far", "vlan", "10.7.2.0/24", ""),
		"network far has 10.7.2.80, an external address of service s:red: routed networks of encapsulation vlan share the addresses outside", 409, "conflict")
	b.ok("POST", "networks/blue:far", network("blue", "far", "vxlan", "10.7.2.0/24", ""))
	b.ok("DELETE", "networks/blue:far", "")
	b.ok("DELETE", "serviceLBs/red:s", "")
	key := mastercfg.K8sServiceKey("red", "shop", "web")
	for _, as := range []string{"externalIPs", "loadBalancer", "atNodes"} {
		b.store(key, fmt.Sprintf(`{"namespace":"shop","name":"web",%q:["10.7.3.80"]}`, as))
		b.refused("POST", "networks/blue:far", network("blue", "far", "vlan", "10.7.3.0/24", ""),
			"network far has 10.7.3.80, an external address of service shop/web: routed networks of encapsulation vlan share the addresses outside", 409, "conflict")
	}
	b.drop(key)
	b.ok("DELETE", "networks/blue:web", "")
	b.ok("POST", "networks/blue:web", network("blue", "web", "vlan", "10.7.0.0/24", ""))
	for _, key := range []string{"blue:web", "red:inner", "red:beside"} {
		b.ok("DELETE", "networks/"+key, "")
	}
	b.ok("POST", "globals/global", `{"name":"global","fwdMode":"bridge","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`)
	b.ok("POST", "networks/blue:web", network("blue", "web", "vlan", "10.7.0.0/24", ""))
	b.ok("POST", "networks/red:web", network("red", "web", "vlan", "10.7.0.0/24", ""))
}
