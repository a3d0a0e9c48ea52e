package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// dual gives the network both IP families.
func (b *bench) dual() {
	b.Helper()
	b.ok("POST", "networks/blue:dual", `{"tenantName":"blue","networkName":"dual","encap":"vxlan","subnet":"10.9.0.0/24","ipv6Subnet":"2001:db8::/64","ipv6Gateway":"2001:db8::1"}`)
}

const dualLB = `{"tenantName":"blue","serviceName":"lb","networkName":"dual","selectors":["app=web"],"ports":["80:8080:TCP"]}`

func TestAServiceMayHaveAnIPv6Address(t *testing.T) {
	b := furnished(t)
	b.dual()
	for _, step := range []struct{ members, four, six string }{
		{``, "10.9.0.1", ""},
		{`,"ipv6Address":"auto"`, "10.9.0.1", "2001:db8::2"},
		{`,"ipv6Address":"auto","ports":["81:81:UDP"]`, "10.9.0.1", "2001:db8::2"},
		{`,"ipv6Address":"2001:db8::80"`, "10.9.0.1", "2001:db8::80"},
		{`,"ipv6Address":"auto","ipAddress":"10.9.0.9"`, "10.9.0.9", "2001:db8::80"},
		{``, "10.9.0.9", ""},
		{`,"ipv6Address":"2001:db8::80"`, "10.9.0.9", "2001:db8::80"},
	} {
		b.ok("POST", "serviceLBs/blue:lb", with(dualLB)(step.members))
		rec := record[mastercfg.CfgServiceLBState](b, mastercfg.ServiceLBPrefix+"lb:blue")
		if rec.IPAddress != step.four || rec.IPv6Address != step.six {
			t.Errorf("after %s: %s and %s, want %s and %s", step.members, rec.IPAddress, rec.IPv6Address, step.four, step.six)
		}
	}
	b.refuseAll([]refusal{
		{"POST", "serviceLBs/blue:other", strings.Replace(with(dualLB)(`,"ipv6Address":"2001:db8::80"`), `"lb"`, `"other"`, 1),
			"requested address 2001:db8::80 is not available in network dual.blue", 409, "conflict"},
		{"POST", "serviceLBs/blue:other", strings.Replace(with(dualLB)(`,"ipv6Address":"2001:db9::80"`), `"lb"`, `"other"`, 1),
			"ipv6 address 2001:db9::80 is not in subnet 2001:db8::/64", 400, "invalid"},
	})
	plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "dual",
		EndpointID: "e1", Labels: map[string]string{"app": "web"}, ConfigEP: mastercfg.ConfigEP{Container: "e1", Host: "h1"}})
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.9.0.1", "2001:db8::3"}) {
		t.Errorf("providers %v", got)
	}
	b.ok("POST", "serviceLBs/blue:lb", dualLB)
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.9.0.1"}) {
		t.Errorf("providers of a service of IPv4: %v", got)
	}
}

// Nor may a network created after the service contain one of its external addresses.
func TestANetworkHasNoExternalAddressOfItsTenant(t *testing.T) {
	b := furnished(t)
	b.dual()
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "serviceLBs/blue:lb", with(dualLB)(`,"externalIps":["203.0.113.80","2001:db9::1"]`))
	network := func(tenant, subnets string) (path, body string) {
		return "networks/" + tenant + ":late", `{"tenantName":"` + tenant + `","networkName":"late","encap":"vxlan",` + subnets + `}`
	}
	for subnets, want := range map[string]string{
		`"subnet":"203.0.113.64/26"`:                           "network late: external address 203.0.113.80 of service lb:blue is in its subnet",
		`"subnet":"10.10.0.0/24","ipv6Subnet":"2001:db9::/64"`: "network late: external address 2001:db9::1 of service lb:blue is in its ipv6Subnet",
	} {
		path, body := network("blue", subnets)
		b.refused("POST", path, body, want, 409, "conflict")
		path, body = network("red", subnets)
		b.ok("POST", path, body)
		b.ok("DELETE", path, "")
	}
	path, body := network("blue", `"subnet":"203.0.113.0/26"`)
	b.ok("POST", path, body)
}

func TestClientsOfAServiceMayKeepTheirProvider(t *testing.T) {
	b := furnished(t)
	b.dual()
	for _, step := range []struct {
		members string
		seconds int
	}{{``, 0}, {`,"sessionAffinity":10800`, 10800}, {`,"sessionAffinity":65535`, 65535}, {``, 0}} {
		b.ok("POST", "serviceLBs/blue:lb", with(dualLB)(step.members))
		if rec := record[mastercfg.CfgServiceLBState](b, mastercfg.ServiceLBPrefix+"lb:blue"); rec.Affinity != step.seconds {
			t.Errorf("after %s: %d seconds", step.members, rec.Affinity)
		}
	}
	b.refuseAll([]refusal{{"POST", "serviceLBs/blue:lb", with(dualLB)(`,"sessionAffinity":65536`), "sessionAffinity Value Out of bound", 400, "invalid"}})
}

func TestANetworkOfIPv6HasServices(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "networks/blue:six", `{"tenantName":"blue","networkName":"six","encap":"vxlan","ipv6Subnet":"2001:db8::/64","ipv6Gateway":"2001:db8::1"}`)
	six := strings.Replace(dualLB, "dual", "six", 1)
	for range 2 { // when created, and when changed
		b.ok("POST", "serviceLBs/blue:lb", six)
		rec := record[mastercfg.CfgServiceLBState](b, mastercfg.ServiceLBPrefix+"lb:blue")
		if rec.IPAddress != "" || rec.IPv6Address != "2001:db8::2" {
			t.Errorf("%+v", rec)
		}
	}
	if got := inspected[contivmodel.ServiceLBOper](b, "serviceLBs/blue:lb"); got.ServiceVip != "2001:db8::2" {
		t.Errorf("%+v", got)
	}
	plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "six",
		EndpointID: "e1", Labels: map[string]string{"app": "web"}, ConfigEP: mastercfg.ConfigEP{Container: "e1", Host: "h1"}})
	if got := b.providers("lb"); !cmp.Equal(got, []string{"2001:db8::3"}) {
		t.Errorf("providers %v", got)
	}
	if got := b.ok("GET", "/service/lb:blue", ""); !strings.Contains(got, `"2001:db8::3:blue":{"IPAddress":"2001:db8::3"`) {
		t.Errorf("served: %s", got)
	}
}

func TestEntrancesAreOfOneService(t *testing.T) {
	b := furnished(t)
	b.dual()
	b.ok("POST", "networks/blue:vlan", `{"tenantName":"blue","networkName":"vlan","encap":"vlan","subnet":"10.10.0.0/24"}`)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/red:dual", `{"tenantName":"red","networkName":"dual","encap":"vxlan","subnet":"10.9.0.0/24"}`)
	b.ok("POST", "serviceLBs/blue:lb", with(dualLB)(`,"externalIps":["203.0.113.80"],"nodePorts":["30080:80:tcp"]`))
	other := func(members string) string { return strings.Replace(with(dualLB)(members), `"lb"`, `"other"`, 1) }
	invalid := func(members, text string) refusal {
		return refusal{"POST", "serviceLBs/blue:other", other(members), text, 400, "invalid"}
	}
	conflict := func(members, text string) refusal {
		return refusal{"POST", "serviceLBs/blue:other", other(members), text, 409, "conflict"}
	}
	const oddAddress = `: want addresses of hosts, each once and in its shortest form, such as 203.0.113.80 or 2001:db8::80`
	const oddPort = `: want nodePort:servicePort:protocol, each nodePort of a protocol once, in 30000..32767, such as 30080:80:tcp`
	b.refuseAll([]refusal{
		invalid(`,"externalIps":["x"]`, `external address "x"`+oddAddress),
		invalid(`,"externalIps":["2001:db8::80%x"]`, `external address "2001:db8::80%x"`+oddAddress),
		invalid(`,"externalIps":["224.0.0.1"]`, `external address "224.0.0.1"`+oddAddress),
		invalid(`,"externalIps":["2001:DB8::1"]`, `external address "2001:DB8::1"`+oddAddress),
		invalid(`,"externalIps":["203.0.113.81","203.0.113.81"]`, `external address "203.0.113.81"`+oddAddress),
		invalid(`,"nodePorts":["80:80:tcp"]`, `node port "80:80:tcp"`+oddPort),
		invalid(`,"nodePorts":["30081"]`, `node port "30081"`+oddPort),
		invalid(`,"nodePorts":["30081:80:tcp","30081:80:TCP"]`, `node port "30081:80:TCP"`+oddPort),
		invalid(`,"nodePorts":["30081:80:udp"]`, `node port "30081:80:udp": the service has no port 80:udp`),
		conflict(`,"nodePorts":["30080:80:tcp"]`, "service other:blue: node port 30080 of tcp is that of service lb:blue"),
		invalid(`,"nodePorts":["30081:80:tcp","030081:80:tcp"]`, `node port "030081:80:tcp"`+oddPort),
		conflict(`,"nodePorts":["030080:80:tcp"]`, "service other:blue: node port 30080 of tcp is that of service lb:blue"),
		conflict(`,"externalIps":["203.0.113.80"],"ports":["080:8081:tcp"]`, "service other:blue: port 80 of tcp at 203.0.113.80 is that of service lb:blue"),
		conflict(`,"externalIps":["203.0.113.80"]`, "service other:blue: port 80 of tcp at 203.0.113.80 is that of service lb:blue"),
		conflict(`,"externalIps":["10.9.0.77"]`, "external address 10.9.0.77 is in network dual"),
		conflict(`,"externalIps":["2001:db8::77"]`, "external address 2001:db8::77 is in network dual"),
		conflict(`,"externalIps":["172.19.3.4"]`, "external address 172.19.3.4 is in the private subnet 172.19.0.0/16"),
		{"POST", "serviceLBs/red:other", strings.NewReplacer("blue", "red", `"lb"`, `"other"`, "80:8080", "81:8080").Replace(with(dualLB)(`,"externalIps":["203.0.113.80"]`)),
			"external address 203.0.113.80 is that of services of tenant blue", 409, "conflict"},
		{"POST", "serviceLBs/blue:other", strings.Replace(other(`,"nodePorts":["30081:80:tcp"]`), `"dual"`, `"vlan"`, 1),
			"service other:blue: external addresses and node ports need a network of encapsulation vxlan and forwarding mode routing; network vlan has vlan, the cluster routing", 409, "mode"},
	})
	b.ok("POST", "serviceLBs/blue:lb", with(dualLB)(`,"externalIps":["203.0.113.80"]`))
	b.ok("POST", "serviceLBs/blue:other", other(`,"externalIps":["203.0.113.80"],"nodePorts":["30080:081:tcp"],"ports":["81:8080:TCP"]`))
}
