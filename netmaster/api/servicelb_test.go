package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// container sends an event of a container of the tenant blue.
func (b *bench) container(event, network, endpoint, id string, labels map[string]string) string {
	b.Helper()
	body, err := json.Marshal(mastercfg.UpdateEndpointRequest{Tenant: "blue", Network: network, EndpointID: endpoint,
		ContainerID: id, Labels: labels, Event: event, EPCommonName: "name-" + id})
	if err != nil {
		b.Fatal(err)
	}
	return b.ok("POST", mastercfg.UpdateEndpointPath, string(body))
}

// providers returns the stored addresses behind a service of the tenant blue.
func (b *bench) providers(service string) []string {
	b.Helper()
	serving, _ := b.behind(service)
	return serving
}

// behind returns those that serve and those that drain.
func (b *bench) behind(service string) (serving, draining []string) {
	b.Helper()
	kvs, _, err := b.db.List(b.Context(), mastercfg.ProviderKey(service+":blue", ""))
	if err != nil {
		b.Fatal(err)
	}
	serving, draining = []string{}, []string{}
	for _, kv := range kvs {
		var p mastercfg.SvcProvider
		if err := json.Unmarshal(kv.Value, &p); err != nil {
			b.Fatal(err)
		}
		if p.Draining {
			draining = append(draining, p.Providers...)
		} else {
			serving = append(serving, p.Providers...)
		}
	}
	return serving, draining
}

func (b *bench) vip(service string) string {
	b.Helper()
	return record[mastercfg.CfgServiceLBState](b, mastercfg.ServiceLBPrefix+service+":blue").IPAddress
}

const lb = `{"tenantName":"blue","serviceName":"lb","networkName":"web","selectors":["app=web"],"ports":["80:8080:TCP"]}`

func TestVirtualAddressFollowsTheObject(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "networks/blue:lan", `{"tenantName":"blue","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24"}`)
	before := storetest.Dump(t, b.db)
	b.endpoint("blue", "web", "", "c1") // 10.7.0.1
	for _, step := range []struct{ members, vip string }{
		{``, "10.7.0.2"},
		{`,"ports":["81:81:UDP"]`, "10.7.0.2"},
		{`,"ipAddress":"10.7.0.2"`, "10.7.0.2"},
		{`,"ipAddress":"10.7.0.50"`, "10.7.0.50"},
		{``, "10.7.0.50"},
		{`,"networkName":"lan"`, "10.8.0.1"},
		{`,"networkName":"lan","ipAddress":"10.8.0.9"`, "10.8.0.9"},
		{``, "10.7.0.2"},
	} {
		b.ok("POST", "serviceLBs/blue:lb", with(lb)(step.members))
		if got := b.vip("lb"); got != step.vip {
			t.Errorf("after %s: %s, want %s", step.members, got, step.vip)
		}
	}
	if n := inspected[contivmodel.NetworkOper](b, "networks/blue:web"); n.NumEndpoints != 1 || n.AllocatedAddressesCount != 2 {
		t.Errorf("counters %d %d", n.NumEndpoints, n.AllocatedAddressesCount)
	}
	b.ok("DELETE", "serviceLBs/blue:lb", "")
	b.noEndpoint("blue", "web", "c1")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestVirtualAddressIsNotReleasedByOthers(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "serviceLBs/blue:lb", lb)
	plug[mastercfg.ReleaseAddressResponse](b, mastercfg.ReleaseAddressPath,
		mastercfg.ReleaseAddressRequest{NetworkID: "web.blue", IPv4Address: "10.7.0.1"})
	if ep := b.endpoint("blue", "web", "", "c1"); ep.IPAddress != "10.7.0.2" {
		t.Errorf("the endpoint has %s, the service %s", ep.IPAddress, b.vip("lb"))
	}
}

func TestServicesAndNetworksKnowEachOther(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "networks/blue:lan", `{"tenantName":"blue","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24"}`)
	b.ok("POST", "serviceLBs/blue:lb", lb)
	linked := func(path string) bool {
		return strings.Contains(b.ok("GET", path, ""), `"Servicelbs":{"blue:lb":{"type":"serviceLB","key":"blue:lb"}}`)
	}
	if !linked("networks/blue:web") || !linked("tenants/blue") || linked("networks/blue:lan") {
		t.Error("created: the service is linked with the wrong ones")
	}
	b.ok("POST", "serviceLBs/blue:lb", with(lb)(`,"networkName":"lan"`))
	if linked("networks/blue:web") || !linked("networks/blue:lan") {
		t.Error("moved: the service is linked with the wrong network")
	}
}

func TestProvidersAreTheContainersThatHaveAllLabels(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "networks/blue:lan", `{"tenantName":"blue","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24"}`)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/red:web", strings.Replace(web, "blue", "red", 1))
	b.endpoint("blue", "web", "front", "e1")
	b.endpoint("blue", "lan", "", "e2")
	b.endpoint("red", "web", "", "e1")
	b.container("start", "front", "e1", "c1", map[string]string{"app": "web", "tier": "", "x": "y"}) // by its group
	b.ok("POST", "serviceLBs/blue:lb", with(lb)(`,"selectors":["app=web","tier="]`))
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.7.0.1"}) {
		t.Errorf("providers at creation: %v", got)
	}
	b.container("start", "lan", "e2", "c2", map[string]string{"app": "web"}) // lacks tier, which is not the same as empty
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.7.0.1"}) {
		t.Errorf("a container without a label is a provider: %v", got)
	}
	b.container("start", "lan", "e2", "c2", map[string]string{"app": "web", "tier": ""})
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.7.0.1", "10.8.0.1"}) {
		t.Errorf("providers of two networks: %v", got)
	}
	want := contivmodel.ServiceLBOper{NumProviders: 2, ServiceVip: "10.7.0.2", Providers: []contivmodel.EndpointOper{
		{Network: "web.blue", EndpointID: "e1", ContainerID: "c1", ContainerName: "name-c1", ServiceName: "lb", EndpointGroupID: 1, EndpointGroupKey: "front:blue",
			IPAddress: []string{"10.7.0.1", ""}, MacAddress: "02:02:0a:07:00:01", HomingHost: "h1", Labels: "map[app:web tier: x:y]"},
		{Network: "lan.blue", EndpointID: "e2", ContainerID: "c2", ContainerName: "name-c2", ServiceName: "lb",
			IPAddress: []string{"10.8.0.1", ""}, MacAddress: "02:02:0a:08:00:01", HomingHost: "h1", Labels: "map[app:web tier:]"},
	}}
	var inspect contivmodel.ServiceLBInspect
	if err := json.Unmarshal([]byte(b.ok("GET", "inspect/serviceLBs/blue:lb", "")), &inspect); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, inspect.Oper); diff != "" {
		t.Error(diff)
	}
	b.ok("POST", "serviceLBs/blue:lb", with(lb)(`,"selectors":["x=y"]`))
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.7.0.1"}) {
		t.Errorf("providers of other selectors: %v", got)
	}
}

func TestContainersThatEndAreNoProviders(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "serviceLBs/blue:lb", lb)
	b.endpoint("blue", "web", "", "e1")
	b.endpoint("blue", "web", "", "e2")
	before := storetest.Dump(t, b.db)
	webApp := map[string]string{"app": "web"}
	b.container("start", "web", "e1", `c"<1>`, webApp)
	b.container("start", "web", "e2", "c2", webApp)
	for _, event := range []string{"", "pause"} {
		if got := b.container(event, "web", "e1", `c"<1>`, nil); got != `{"IPAddress":""}` {
			t.Errorf("event %q answers %s", event, got)
		}
	}
	if got := b.container("die", "", "", "nobody", nil); got != "null" {
		t.Errorf("the end of an unknown container answers %s", got)
	}
	if got := b.providers("lb"); len(got) != 2 {
		t.Errorf("providers %v", got)
	}
	b.container("die", "", "", `c"<1>`, nil)
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.7.0.3"}) {
		t.Errorf("providers after an end: %v", got)
	}
	b.container("die", "", "", "c2", nil)
	after := storetest.Dump(t, b.db)
	for _, id := range []string{"e1", "e2"} { // the names and labels stay
		key := mastercfg.EndpointPrefix + "web.blue-" + id
		if ep := record[mastercfg.CfgEndpointState](b, key); !cmp.Equal(ep.Labels, webApp) || ep.ContainerID != "" {
			t.Errorf("endpoint %s has container %q and the labels %v", id, ep.ContainerID, ep.Labels)
		}
		after[key] = before[key]
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
	b.container("start", "web", "e2", "c2", webApp)
	b.noEndpoint("blue", "web", "e2")
	if got := b.providers("lb"); len(got) != 0 {
		t.Errorf("a deleted endpoint provides: %v", got)
	}
}

// An infra network may be deleted before the endpoints on it.
func TestContainersOfADeletedNetworkAreNoProviders(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "networks/blue:host", `{"tenantName":"blue","networkName":"host","nwType":"infra","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.endpoint("blue", "host", "", "e1")
	b.endpoint("blue", "web", "", "e2")
	b.ok("POST", "serviceLBs/blue:lb", lb)
	b.container("start", "host", "e1", "c1", map[string]string{"app": "web"})
	b.container("start", "web", "e2", "c2", map[string]string{"app": "web"})
	if got := b.providers("lb"); len(got) != 2 {
		t.Fatalf("providers: %v", got)
	}
	b.ok("DELETE", "networks/blue:host", "")
	if got := b.providers("lb"); !cmp.Equal(got, []string{"10.7.0.1"}) {
		t.Errorf("providers: %v", got)
	}
	if got := b.ok("GET", "/service/lb:blue", ""); strings.Contains(got, "10.8.0") {
		t.Errorf("served: %s", got)
	}
}

func TestEventsThatNameNothingAreRefused(t *testing.T) {
	b := furnished(t)
	b.refuseAll([]refusal{
		{"POST", mastercfg.UpdateEndpointPath, `{"Event":"start","Tenant":"blue","Network":"web","EndpointID":"e1"}`,
			`invalid ProviderID "": event start names no container`, 400, "invalid"},
		{"POST", mastercfg.UpdateEndpointPath, `{"Event":"die"}`, `invalid ProviderID "": event die names no container`, 400, "invalid"},
		{"POST", mastercfg.UpdateEndpointPath, `{"Event":"start","ContainerID":"c","Tenant":"blue","Network":"none","EndpointID":"e1"}`,
			"key not found: network or group blue:none", 422, "missing-reference"},
		{"POST", mastercfg.UpdateEndpointPath, `{"Event":"start","ContainerID":"c","Tenant":"blue","Network":"web","EndpointID":"e1"}`,
			"key not found: endpoint web.blue-e1", 404, "not-found"},
	})
}

func TestServiceRecordsAreServed(t *testing.T) {
	b := furnished(t)
	b.refused("GET", "/services", "", "key not found", 404, "not-found")
	if got := b.ok("GET", "/service/lb:blue", ""); got != "null" {
		t.Errorf("unknown service: %s", got)
	}
	b.ok("POST", "serviceLBs/blue:lb", lb)
	if got := b.ok("GET", "/services", ""); !strings.HasSuffix(got, `"ipaddress":"10.7.0.1","providers":{}}]`) {
		t.Errorf("without providers: %s", got)
	}
	b.endpoint("blue", "web", "", "e1")
	b.container("start", "web", "e1", "c1", map[string]string{"app": "web"})
	const want = `[{"id":"lb:blue","servicename":"lb","tenantname":"blue","subnet":"web","ports":["80:8080:TCP"],"selectors":{"app":"web"},` +
		`"ipaddress":"10.7.0.1","providers":{"10.7.0.2:blue":{"IPAddress":"10.7.0.2","ContainerID":"c1","Labels":{"app":"web"},"Tenant":"blue",` +
		`"Network":"web.blue","Services":["lb:blue"],"Container":"","EpIDKey":"web.blue-e1"}}}]`
	for _, path := range []string{"/service/lb:blue", "/services"} {
		if diff := cmp.Diff(want, b.ok("GET", path, "")); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// TestProvidersAgreeWithAModel runs random histories of containers and services and compares the lists with a
// model of a few lines.
func TestProvidersAgreeWithAModel(t *testing.T) {
	b := furnished(t)
	rapid.Check(t, func(rt *rapid.T) {
		type container struct {
			ip, id string
			labels map[string]string
		}
		endpoints, services := map[string]*container{}, map[string]map[string]string{}
		behind := map[string][]string{} // a service as last seen: providers that are removed drain
		labels := rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier"}), rapid.SampledFrom([]string{"", "web", "db"}), 0, 2)
		endpoint, service := rapid.SampledFrom([]string{"e1", "e2", "e3"}), rapid.SampledFrom([]string{"s1", "s2", "s3"})
		id := rapid.SampledFrom([]string{"c1", "c2"})
		end := func(id string) {
			for _, c := range endpoints {
				if c.id == id {
					c.id, c.labels = "", nil
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"attach": func(rt *rapid.T) {
				name := endpoint.Draw(rt, "endpoint")
				ep := b.endpoint("blue", "web", "", name)
				if endpoints[name] == nil {
					endpoints[name] = &container{ip: ep.IPAddress}
				}
			},
			"detach": func(rt *rapid.T) {
				name := endpoint.Draw(rt, "endpoint")
				if endpoints[name] != nil {
					b.noEndpoint("blue", "web", name)
					delete(endpoints, name)
				}
			},
			"start": func(rt *rapid.T) {
				name := endpoint.Draw(rt, "endpoint")
				if c := endpoints[name]; c != nil {
					c.id, c.labels = id.Draw(rt, "container"), labels.Draw(rt, "labels")
					b.container("start", "web", name, c.id, c.labels)
				}
			},
			"die": func(rt *rapid.T) {
				name := id.Draw(rt, "container")
				b.container("die", "", "", name, nil)
				end(name)
			},
			"serve": func(rt *rapid.T) {
				name := service.Draw(rt, "service")
				selectors := rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier"}), rapid.SampledFrom([]string{"", "web", "db"}), 1, 2).Draw(rt, "selectors")
				var items []string
				for key, value := range selectors {
					items = append(items, key+"="+value)
				}
				body, _ := json.Marshal(contivmodel.ServiceLB{TenantName: "blue", ServiceName: name, NetworkName: "web", Selectors: items, Ports: []string{"80:80:TCP"}})
				b.ok("POST", "serviceLBs/blue:"+name, string(body))
				services[name] = selectors
			},
			"unserve": func(rt *rapid.T) {
				name := service.Draw(rt, "service")
				if services[name] != nil {
					b.ok("DELETE", "serviceLBs/blue:"+name, "")
					delete(services, name)
					delete(behind, name)
				}
			},
			"": func(rt *rapid.T) {
				for name, selectors := range services {
					want, drain := []string{}, []string{}
					for _, c := range endpoints {
						matches := c.id != "" && len(c.labels) > 0
						for key, value := range selectors {
							got, has := c.labels[key]
							matches = matches && has && got == value
						}
						switch {
						case matches:
							want = append(want, c.ip)
						case c.id != "" && slices.Contains(behind[name], c.ip):
							drain = append(drain, c.ip)
						}
					}
					slices.Sort(want)
					slices.Sort(drain)
					serving, draining := b.behind(name)
					if diff := cmp.Diff(want, serving) + cmp.Diff(drain, draining); diff != "" {
						rt.Fatalf("service %s %v: %s", name, selectors, diff)
					}
					behind[name] = slices.Concat(serving, draining)
				}
			},
		})
		for _, name := range slices.Collect(maps.Keys(endpoints)) {
			b.noEndpoint("blue", "web", name)
		}
		for name := range services {
			b.ok("DELETE", "serviceLBs/blue:"+name, "")
		}
		if n := inspected[contivmodel.NetworkOper](b, "networks/blue:web"); n.AllocatedAddressesCount != 0 || n.NumEndpoints != 0 {
			rt.Fatalf("counters %d %d", n.AllocatedAddressesCount, n.NumEndpoints)
		}
	})
}

// A container that starts with its endpoint, and one that is selected no longer.
func TestLabelsOfAnEndpointMakeAProviderThatMayDrain(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "serviceLBs/blue:lb", lb)
	request := mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "web", EndpointID: "e1", Labels: map[string]string{"app": "web"},
		ConfigEP: mastercfg.ConfigEP{Container: "e1", Host: "h1"}}
	for range 2 { // a repeated ADD
		plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, request)
	}
	expect := func(when string, serving, draining int) {
		t.Helper()
		if s, d := b.behind("lb"); len(s) != serving || len(d) != draining {
			t.Errorf("%s: %v serve, %v drain", when, s, d)
		}
		var now struct{ Services contivmodel.ServicesStatus }
		if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/status", "")), &now); err != nil {
			t.Fatal(err)
		}
		if s := now.Services; s.Count != 1 || slices.Equal(s.Unserved, []string{"blue/lb"}) != (serving == 0) {
			t.Errorf("%s: the status tells %+v", when, s)
		}
	}
	expect("created", 1, 0)
	b.container("start", "web", "e1", "e1", map[string]string{"app": "db"})
	expect("not selected any more", 0, 1)
	b.ok("POST", "serviceLBs/blue:lb", with(lb)(`,"ports":["81:8080:TCP"]`))
	expect("the service has changed", 0, 1)
	b.container("start", "web", "e1", "e1", map[string]string{"app": "web"})
	expect("selected again", 1, 0)
	b.ok("POST", "serviceLBs/blue:lb", with(lb)(`,"selectors":["app=db"]`))
	expect("the service selects others", 0, 1)
	b.container("start", "web", "e1", "e1", nil)
	expect("without labels", 0, 1)
	b.container("die", "", "", "e1", nil)
	expect("stopped", 0, 0)
}
