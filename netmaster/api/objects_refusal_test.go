package api

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// absent checks the refusals that every kind shares.
func (b *bench) absent(segment, objType, key string) {
	b.Helper()
	b.refuseAll([]refusal{
		{"GET", segment + "/" + key, "", objType + " not found", 404, "not-found"},
		{"GET", "inspect/" + segment + "/" + key, "", objType + " not found", 404, "not-found"},
		{"DELETE", segment + "/" + key, "", objType + " not found", 404, "not-found"},
		{"POST", segment + "/" + key, `{}`, "Invalid Key", 400, "invalid"},
	})
}

// with puts members into the JSON of an object; a later member wins.
func with(object string) func(members string) string {
	return func(members string) string { return strings.TrimSuffix(object, "}") + members + `,"x":0}` }
}

func TestEveryKindRefusesWhatIsNotThere(t *testing.T) {
	b := furnished(t)
	for _, o := range []struct{ segment, objType, key string }{
		{"netprofiles", "netprofile", "blue:x"}, {"Bgps", "Bgp", "x"}, {"serviceLBs", "serviceLB", "blue:x"},
		{"extContractsGroups", "extContractsGroup", "blue:x"}, {"appProfiles", "appProfile", "blue:x"}, {"aciGws", "aciGw", "x"},
		{"tenants", "tenant", "x"}, {"networks", "network", "blue:x"}, {"endpointGroups", "endpointGroup", "blue:x"},
		{"policys", "policy", "blue:x"}, {"rules", "rule", "blue:p:x"}, {"globals", "global", "x"},
	} {
		b.absent(o.segment, o.objType, o.key)
	}
	b.refused("GET", "inspect/endpoints/x", "", "endpoint not found", 404, "not-found")
}

func TestNetprofileRefusals(t *testing.T) {
	b := furnished(t)
	profile := with(`{"tenantName":"blue","profileName":"f"}`)
	b.refuseAll([]refusal{
		{"POST", "netprofiles/blue:f", profile(`,"DSCP":64`), "DSCP Value Out of bound", 400, "invalid"},
		{"POST", "netprofiles/blue:f", profile(`,"DSCP":-1`), "DSCP Value Out of bound", 400, "invalid"},
		{"POST", "netprofiles/blue:f", profile(`,"burst":10487`), "burst Value Out of bound", 400, "invalid"},
		{"POST", "netprofiles/blue:f", profile(`,"burst":1`), "Invalid Burst size: 1 is too small, want 0 or 2 to 10486 kilobytes", 400, "invalid"},
		{"POST", "netprofiles/blue:f", profile(`,"bandwidth":"10 x"`), "bandwidth string invalid format", 400, "invalid"},
		{"POST", "netprofiles/blue:f", profile(`,"bandwidth":"` + strings.Repeat("1", 65) + `"`), "bandwidth string too long", 400, "invalid"},
		{"POST", "netprofiles/a_b:f", profile(`,"tenantName":"a_b"`), "Tenant not found", 422, "missing-reference"},
		{"POST", "netprofiles/:f", profile(`,"tenantName":""`), "tenantName string invalid format", 400, "invalid"},
		{"POST", "netprofiles/green:f", profile(`,"tenantName":"green","burst":1`), "Tenant not found", 422, "missing-reference"},
	})
	b.ok("POST", "netprofiles/blue:f", profile(""))
	b.refused("POST", "netprofiles/blue:f", profile(`,"burst":1`), "Invalid Burst size: 1 is too small, want 0 or 2 to 10486 kilobytes", 400, "invalid")
	b.refused("DELETE", "tenants/blue", "", "cannot delete blue has 2 endpoint groups", 409, "in-use")
}

func TestBgpRefusals(t *testing.T) {
	b := furnished(t)
	bgp := with(`{"hostname":"h1","routerip":"50.1.1.1/24"}`)
	b.refuseAll([]refusal{
		{"POST", "Bgps/h1", bgp(`,"routerip":""`), "routerip string invalid format", 400, "invalid"},
		{"POST", "Bgps/h1", bgp(`,"routerip":"50.1.1.1"`), "routerip string invalid format", 400, "invalid"},
		{"POST", "Bgps/h1", bgp(`,"neighbor":"50.1.1"`), "neighbor string invalid format", 400, "invalid"},
		{"POST", "Bgps/h1", bgp(`,"neighbor":"1000.1000.1000.1000"`), "neighbor string too long", 400, "invalid"},
		{"POST", "Bgps/h1", bgp(`,"as":"` + strings.Repeat("6", 65) + `"`), "as string too long", 400, "invalid"},
		{"POST", "Bgps/h_1", bgp(`,"hostname":"h_1"`), "hostname string invalid format", 400, "invalid"},
		{"POST", "Bgps/h1", bgp(`,"neighbor":"50.1.1.1","neighbor-as":"500","as":"65002"`), "neighbor 50.1.1.1 is the node's own address", 400, "invalid"},
		{"POST", "Bgps/h1", bgp(`,"neighbors":["50.1.1.2=0"],"as":"65002"`), `neighbors "0" is not the number of an AS: want 1 to 4294967295, or 1.10`, 400, "invalid"},
		{"POST", "Bgps/h1", bgp(`,"holdTime":2`), "holdTime 2: want 3 to 65535 seconds, or 0 for 90", 400, "invalid"},
	})
	b.ok("POST", "Bgps/h1", bgp(""))
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("DELETE", "endpointGroups/blue:back", "")
	b.ok("DELETE", "networks/blue:web", "")
	b.refused("POST", "globals/global", `{"name":"global","fwdMode":"bridge","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`,
		"please delete existing Bgp configs", 409, "in-use")
	b.store(mastercfg.GlobalConfigKey, `{"id":"","nw-infra-type":"aci","fwd-mode":"routing"}`)
	b.refused("POST", "Bgps/h1", bgp(`,"as":"7"`), "not supported in ACI fabric mode", 409, "mode")
	b.refused("POST", "Bgps/h2", bgp(`,"hostname":"h2"`), "not supported in ACI fabric mode", 409, "mode")
	b.ok("DELETE", "Bgps/h1", "")
}

func TestServiceRefusals(t *testing.T) {
	b := furnished(t)
	service := with(`{"tenantName":"blue","serviceName":"lb","networkName":"web","selectors":["app=web"],"ports":["80:8080:TCP"]}`)
	const badPorts = "Invalid Port maping . Port format is - Port:TargetPort:Protocol"
	refusals := []refusal{
		{"POST", "serviceLBs/blue:lb", service(`,"networkName":""`), "networkName string invalid format", 400, "invalid"},
		{"POST", "serviceLBs/blue:lb", service(`,"ipAddress":"10.7"`), "ipAddress string invalid format", 400, "invalid"},
		{"POST", "serviceLBs/blue:l_b", service(`,"serviceName":"l_b"`), "serviceName string invalid format", 400, "invalid"},
		{"POST", "serviceLBs/blue:lb", service(`,"selectors":[],"ports":[]`), "Invalid selector options", 400, "invalid"},
		{"POST", "serviceLBs/green:lb", service(`,"tenantName":"green"`), "Tenant not found", 422, "missing-reference"},
		{"POST", "serviceLBs/blue:lb", service(`,"networkName":"none","selectors":["x"]`), "Network none not found", 422, "missing-reference"},
		{"POST", "serviceLBs/blue:lb", service(`,"selectors":["app"]`), "Invalid selector app. selector format is key1=value1", 400, "invalid"},
		{"POST", "serviceLBs/blue:lb", service(`,"selectors":["app=web","a=b=c"]`), "Invalid selector a=b=c. selector format is key1=value1", 400, "invalid"},
		{"POST", "serviceLBs/blue:lb", service(`,"selectors":["=web"]`), "Invalid selector =web. selector format is key1=value1", 400, "invalid"},
		{"POST", "serviceLBs/blue:lb", service(`,"selectors":["app=web","app=db"]`), "Invalid selector app=db. label app cannot be web as well", 400, "invalid"},
		{"POST", "serviceLBs/blue:lb", service(`,"ipAddress":"10.7.0.254"`), "requested address 10.7.0.254 is reserved or out of range in subnet 10.7.0.0/24", 409, "conflict"},
		{"POST", "serviceLBs/blue:lb", service(`,"ipAddress":"10.8.0.1"`), "hostIP 10.8.0.1 is exceeding beyond subnet 10.7.0.0/24, hostID 65537", 400, "invalid"},
	}
	for _, ports := range []string{`[]`, `["80:8080"]`, `["80"]`, `[""]`, `["80:8080:TCP:x"]`, `["80:8080:tCp"]`, `["80:8080:sctp"]`, `["0:8080:TCP"]`,
		`["80:0:TCP"]`, `["80:65536:TCP"]`, `["-1:80:TCP"]`, `["http:80:TCP"]`, `["80:8080:TCP","80:8080"]`} {
		refusals = append(refusals, refusal{"POST", "serviceLBs/blue:lb", service(`,"ports":` + ports), badPorts, 400, "invalid"})
	}
	b.refuseAll(refusals)
	ep := b.endpoint("blue", "web", "", "c1")
	b.refused("POST", "serviceLBs/blue:lb", service(`,"ipAddress":"`+ep.IPAddress+`"`),
		"requested address 10.7.0.1 is not available in network web.blue", 409, "conflict")
	b.ok("POST", "serviceLBs/blue:lb", service(`,"ports":["80:8080:TCP","81:8081:tcp","82:8082:Tcp","53:53:UDP","54:54:udp","65535:1:Udp"]`))
	b.refuseAll(refusals) // to update is no different
	_, failure := create(b, "c2", mastercfg.ConfigEP{IPAddress: "10.7.0.2"})
	if failure != "requested address 10.7.0.2 is used by service lb:blue" {
		t.Errorf("endpoint with the address of a service: %q", failure)
	}
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("DELETE", "endpointGroups/blue:back", "")
	b.refused("DELETE", "networks/blue:web", "", "cannot delete web has 1 services ", 409, "in-use")
	b.noEndpoint("blue", "web", "c1")
	b.refused("DELETE", "tenants/blue", "", "cannot delete blue has 1 networks", 409, "in-use")
}

func TestContractsRefusals(t *testing.T) {
	b := furnished(t)
	contracts := with(`{"tenantName":"blue","contractsGroupName":"c","contractsType":"provided"}`)
	const badType = "Contracts group need to be either 'provided' or 'consumed'"
	b.refuseAll([]refusal{
		{"POST", "extContractsGroups/blue:c", contracts(`,"contractsType":""`), badType, 400, "invalid"},
		{"POST", "extContractsGroups/green:c", contracts(`,"tenantName":"green","contractsType":"both"`), badType, 400, "invalid"},
		{"POST", "extContractsGroups/green:c", contracts(`,"tenantName":"green"`), "Tenant not found", 422, "missing-reference"},
	})
	b.ok("POST", "extContractsGroups/blue:c", contracts(""))
	for _, members := range []string{``, `,"contractsType":""`, `,"contractsType":"both"`, `,"contracts":["uni/x"]`} {
		b.refused("POST", "extContractsGroups/blue:c", contracts(members), "external contracts update not supported", 409, "immutable")
	}
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","extContractsGrps":["c"]}`)
	b.refused("DELETE", "extContractsGroups/blue:c", "", "External contracts group is in-use", 409, "in-use")
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("DELETE", "endpointGroups/blue:back", "")
	b.ok("DELETE", "networks/blue:web", "")
	b.refused("DELETE", "tenants/blue", "", "cannot delete blue has 1 external contract groups", 409, "in-use")
	b.ok("DELETE", "extContractsGroups/blue:c", "")
	b.ok("DELETE", "tenants/blue", "")
}

func TestAppProfileRefusals(t *testing.T) {
	b := furnished(t)
	b.refuseAll([]refusal{
		{"POST", "appProfiles/green:a", `{"tenantName":"green","appProfileName":"a"}`, "Tenant not found", 422, "missing-reference"},
		{"POST", "appProfiles/blue:a_b", `{"tenantName":"blue","appProfileName":"a_b"}`, "appProfileName string invalid format", 400, "invalid"},
		{"POST", "appProfiles/blue:a", `{"tenantName":"blue","appProfileName":"a","endpointGroups":["front","none"]}`, "EndpointGroup none not found", 422, "missing-reference"},
	})
	b.ok("POST", "appProfiles/blue:a", `{"tenantName":"blue","appProfileName":"a"}`)
	b.refused("POST", "appProfiles/blue:a", `{"tenantName":"blue","appProfileName":"a","endpointGroups":["none"]}`,
		"EndpointGroup none not found", 422, "missing-reference")
}

func TestFabricConnectionRefusals(t *testing.T) {
	b := booted(t)
	gw := with(`{"name":"aciGw","enforcePolicies":"yes","includeCommonTenant":"no","physicalDomain":"dom"}`)
	b.refuseAll([]refusal{
		{"POST", "aciGws/gw", gw(`,"name":"gw"`), "name string invalid format", 400, "invalid"},
		{"POST", "aciGws/aciGw", gw(`,"enforcePolicies":"maybe"`), "enforcePolicies string invalid format", 400, "invalid"},
		{"POST", "aciGws/aciGw", gw(`,"enforcePolicies":""`), "enforcePolicies string invalid format", 400, "invalid"},
		{"POST", "aciGws/aciGw", gw(`,"includeCommonTenant":"x"`), "includeCommonTenant string invalid format", 400, "invalid"},
		{"POST", "aciGws/aciGw", gw(`,"physicalDomain":""`), "physicalDomain string invalid format", 400, "invalid"},
		{"POST", "aciGws/aciGw", gw(`,"pathBindings":"topology/pod-1"`), "pathBindings string invalid format", 400, "invalid"},
		{"POST", "aciGws/aciGw", gw(`,"nodeBindings":"topology/pod-1/node-12345"`), "nodeBindings string invalid format", 400, "invalid"},
		{"POST", "aciGws/aciGw", gw(`,"nodeBindings":"` + strings.Repeat("x", 2049) + `"`), "nodeBindings string too long", 400, "invalid"},
	})
}
