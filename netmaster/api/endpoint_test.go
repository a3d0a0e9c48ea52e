package api

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// request returns a createEndpoint for a container of the network blue:web.
func request(container string, ep mastercfg.ConfigEP) mastercfg.CreateEndpointRequest {
	ep.Container, ep.Host = container, "h1"
	return mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "web", ConfigEP: ep}
}

func create(b *bench, container string, ep mastercfg.ConfigEP) (mastercfg.CfgEndpointState, string) {
	b.Helper()
	answer, failure := tryPlug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, request(container, ep))
	return answer.EndpointConfig, failure
}

// counts returns the counters of the network web.blue and its group front:blue.
func counts(b *bench) [3]int {
	n := inspected[contivmodel.NetworkOper](b, "networks/blue:web")
	g := inspected[contivmodel.EndpointGroupOper](b, "endpointGroups/blue:front")
	return [3]int{n.NumEndpoints, n.AllocatedAddressesCount, g.NumEndpoints}
}

func withGroup(t testing.TB) *bench {
	b := ready(t)
	b.ok("POST", "networks/blue:web", `{"tenantName":"blue","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24","gateway":"10.7.0.254",`+
		`"ipv6Subnet":"2001:db8::/64","ipv6Gateway":"2001:db8::1"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`)
	return b
}

// An address that a pod of Kubernetes requests is not assigned to a service that requests it, in either IP family.
func TestAnAddressThatAPodAsksForIsNotThatOfAService(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", `{"tenantName":"blue","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24","ipv6Subnet":"2001:db8::/64"}`)
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPod{UID: "u1", Tenant: "blue", Network: "web",
			IPv4: netip.MustParseAddr("10.7.0.50"), IPv6: netip.MustParseAddr("2001:db8::50")})
	})
	const service = `{"tenantName":"blue","serviceName":"s","networkName":"web",%s,"ports":["80:80:TCP"],"selectors":["a=b"]}`
	for field, address := range map[string]string{`"ipAddress":"10.7.0.50"`: "10.7.0.50", `"ipv6Address":"2001:db8::50"`: "2001:db8::50"} {
		b.refused("POST", "serviceLBs/blue:s", fmt.Sprintf(service, field), "requested address "+address+" is not available in network web.blue", 409, "conflict")
	}
}

func TestEndpointGetsAddressesOfBothFamiliesAndItsGroup(t *testing.T) {
	b := withGroup(t)
	got := b.endpoint("blue", "web", "front", "c1")
	want := mastercfg.CfgEndpointState{ID: "web.blue-c1", NetID: "web.blue", EndpointID: "c1", ServiceName: "front", EndpointGroupID: 1,
		EndpointGroupKey: "front:blue", IPAddress: "10.7.0.1", IPv6Address: "2001:db8::2", MacAddress: "02:02:0a:07:00:01", HomingHost: "h1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, record[mastercfg.CfgEndpointState](b, mastercfg.EndpointPrefix+"web.blue-c1")); diff != "" {
		t.Error(diff)
	}
	if got := counts(b); got != [3]int{1, 2, 1} {
		t.Errorf("counters %v", got)
	}
	b.noEndpoint("blue", "web", "c1")
	if got := counts(b); got != [3]int{0, 0, 0} {
		t.Errorf("counters %v", got)
	}
	n := record[mastercfg.CfgNetworkState](b, mastercfg.NetworkPrefix+"web.blue")
	if diff := cmp.Diff(map[string]bool{"::1": true}, n.IPv6AllocMap); diff != "" {
		t.Errorf("IPv6 addresses taken: %s", diff)
	}
}

func TestAnIPv6AddressIsHeldUntilItsEndpointComes(t *testing.T) {
	b := withGroup(t)
	held := func() []string {
		kvs, _, err := b.db.List(t.Context(), mastercfg.HeldPrefix)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, kv := range kvs {
			keys = append(keys, kv.Key[len(mastercfg.HeldPrefix):])
		}
		return keys
	}
	alloc := plug[mastercfg.AllocAddressResponse](b, mastercfg.AllocAddressPath, mastercfg.AllocAddressRequest{AddressPool: "2001:db8::/64:blue"})
	if alloc.IPv4Address != "2001:db8::2/64" || !cmp.Equal(held(), []string{"web.blue/2001:db8::2"}) {
		t.Fatalf("got %+v, held %v", alloc, held())
	}
	if ep := b.endpoint("blue", "web", "front", "other"); ep.IPv6Address != "2001:db8::3" {
		t.Errorf("another endpoint got %s", ep.IPv6Address)
	}
	b.refused("POST", "serviceLBs/blue:s", `{"tenantName":"blue","serviceName":"s","networkName":"web","ipv6Address":"2001:db8::2","ports":["80:80:TCP"],"selectors":["a=b"]}`,
		"requested address 2001:db8::2 is not available in network web.blue", 409, "conflict")
	ep, failure := create(b, "c1", mastercfg.ConfigEP{IPv6Address: "2001:db8::2"})
	if failure != "" || ep.IPv6Address != "2001:db8::2" || len(held()) != 0 {
		t.Errorf("%s: got %s, held %v", failure, ep.IPv6Address, held())
	}
	if got := counts(b); got[1] != 4 {
		t.Errorf("counters %v", got)
	}
	if _, failure := create(b, "c2", mastercfg.ConfigEP{IPv6Address: "2001:db8::2"}); failure == "" {
		t.Error("an address was given twice")
	}
	b.noEndpoint("blue", "web", "c1")
	b.noEndpoint("blue", "web", "other")
	if got := counts(b); got != [3]int{0, 0, 0} || len(held()) != 0 {
		t.Errorf("counters %v, held %v", got, held())
	}
}

func TestCreateEndpointIsIdempotentByContainer(t *testing.T) {
	b := withGroup(t)
	first := b.endpoint("blue", "web", "front", "c1")
	before := storetest.Dump(t, b.db)
	again, failure := create(b, "c1", mastercfg.ConfigEP{IPAddress: "10.7.0.99", ServiceName: "none"})
	if diff := cmp.Diff(first, again); failure != "" || diff != "" {
		t.Errorf("%s %s", failure, diff)
	}
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("the second create left a trace: %s", diff)
	}
}

func TestEndpointWithoutAContainerIsNamedAfterItsHost(t *testing.T) {
	b := withGroup(t)
	if ep, failure := create(b, "", mastercfg.ConfigEP{}); failure != "" || ep.ID != "h1-native-intf" {
		t.Errorf("%+v %s", ep, failure)
	}
	b.ok("POST", "networks/blue:other", `{"tenantName":"blue","networkName":"other","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.refused("POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"other","ConfigEP":{"Host":"h1"}}`,
		"endpoint id h1-native-intf is taken by an endpoint of another network", 409, "conflict")
	b.noEndpoint("blue", "web", "h1")
	if got := counts(b); got != [3]int{} {
		t.Errorf("counters %v", got)
	}
}

// An infra network has one port on each host, which no policy of a group is about. In a fabric it is not in the default
// group either.
func TestAHostIsInNoGroup(t *testing.T) {
	b := withGroup(t)
	b.ok("POST", "networks/blue:contivh1", `{"tenantName":"blue","networkName":"contivh1","nwType":"infra","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	host := func(name, group string) {
		t.Helper()
		ep := b.endpoint("blue", "contivh1", group, name)
		if ep.EndpointGroupKey != "" || ep.EndpointGroupID != 0 || ep.IPAddress == "" {
			t.Errorf("%s: %+v", name, ep)
		}
	}
	host("h1", "front")
	host("h2", "")
	b.store(mastercfg.GlobalConfigKey, `{"id":"","nw-infra-type":"aci","fwd-mode":"routing"}`)
	host("h3", "")
	if got := counts(b); got[2] != 0 {
		t.Errorf("%d endpoints in the group", got[2])
	}
}

// Docker asks for the address of a network's gateway before it creates the network.
func TestInSwarmModeTheFirstAddressOfAPoolWithoutANetworkIsToldAndNotHeld(t *testing.T) {
	b := ready(t, func(c *Config) { c.ClusterMode = "swarm-mode" })
	before := storetest.Dump(t, b.db)
	for pool, want := range map[string]string{"10.9.0.0/24": "10.9.0.1/24", "10.9.0.128/25:blue": "10.9.0.129/25", "2001:db8::/64": "2001:db8::1/64"} {
		for range 2 {
			if got := plug[mastercfg.AllocAddressResponse](b, mastercfg.AllocAddressPath, mastercfg.AllocAddressRequest{AddressPool: pool}); got.IPv4Address != want {
				t.Errorf("%s: %q, want %q", pool, got.IPv4Address, want)
			}
		}
	}
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("held: %s", diff)
	}
	if _, failure := tryPlug[mastercfg.AllocAddressResponse](b, mastercfg.AllocAddressPath, mastercfg.AllocAddressRequest{NetworkID: "none.blue", AddressPool: "10.9.0.0/24"}); failure != "key not found: network none.blue" {
		t.Errorf("a network that is named: %q", failure)
	}
}

// Tenants blue and blue-x with a network each: an endpoint of one may have the id that one of the other would have. The
// agent whose ADD is refused deletes afterwards what it asked for.
func TestAnEndpointIsDeletedOnlyByItsOwnNames(t *testing.T) {
	b := withGroup(t)
	b.ok("POST", "tenants/blue-x", `{"tenantName":"blue-x"}`)
	b.ok("POST", "networks/blue-x:web", `{"tenantName":"blue-x","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24"}`)
	theirs := b.endpoint("blue-x", "web", "", "c1")
	if _, failure := create(b, "x-c1", mastercfg.ConfigEP{}); failure == "" {
		t.Fatal("two endpoints have one id")
	}
	before := storetest.Dump(t, b.db)
	b.refuseAll([]refusal{
		{"POST", mastercfg.DeleteEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"x-c1"}`,
			"network web.blue has no endpoint " + theirs.ID, 404, "not-found"},
		{"POST", mastercfg.UpdateEndpointPath, `{"Tenant":"blue","Network":"web","EndpointID":"x-c1","ContainerID":"x-c1","Event":"start","Labels":{"app":"web"}}`,
			"network web.blue has no endpoint " + theirs.ID, 404, "not-found"},
	})
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("the endpoint of another tenant has changed: %s", diff)
	}
	b.noEndpoint("blue-x", "web", "c1")
}

func TestEndpointRefusals(t *testing.T) {
	b := withGroup(t)
	b.ok("POST", "networks/blue:other", `{"tenantName":"blue","networkName":"other","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"other","ipPool":"10.8.0.9"}`)
	b.ok("POST", "endpointGroups/blue:pool", `{"tenantName":"blue","groupName":"pool","networkName":"web","ipPool":"10.7.0.50-10.7.0.51"}`)
	b.endpoint("blue", "web", "", "c1")
	create := func(members string) string {
		return `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"x","Host":"h1",` + members + `"Y":0}}`
	}
	path := mastercfg.CreateEndpointPath
	b.refuseAll([]refusal{
		{"POST", path, strings.Replace(create(""), "web", "none", 1),
			"endpoint x: key not found: network none of tenant blue", 422, "missing-reference"},
		{"POST", path, create(`"ServiceName":"none",`), "endpoint x: key not found: group none of tenant blue", 422, "missing-reference"},
		{"POST", path, create(`"ServiceName":"back",`), "endpoint group back:blue belongs to network other, not to web", 400, "invalid"},
		{"POST", path, create(`"IPAddress":"10.7.0.1",`), "requested address 10.7.0.1 is used by endpoint web.blue-c1", 409, "conflict"},
		{"POST", path, create(`"IPAddress":"10.7.0.254",`), "requested address 10.7.0.254 is reserved or out of range in subnet 10.7.0.0/24", 409, "conflict"},
		{"POST", path, create(`"IPAddress":"10.7.0.50",`), "requested address 10.7.0.50 is reserved by endpoint group pool:blue", 409, "conflict"},
		{"POST", path, create(`"IPAddress":"10.7.0.60","ServiceName":"pool",`), "requested address 10.7.0.60 is reserved or out of range in pool 10.7.0.50-10.7.0.51", 409, "conflict"},
		{"POST", path, create(`"IPAddress":"10.9.0.1",`), "hostIP 10.9.0.1 is exceeding beyond subnet 10.7.0.0/24, hostID 131073", 400, "invalid"},
		{"POST", path, create(`"IPAddress":"ten",`), "requested address ten is not an IP address", 400, "invalid"},
		{"POST", path, create(`"IPv6Address":"2001:db8::1",`), "requested ipv6 address 2001:db8::1 is not available in subnet 2001:db8::/64", 409, "conflict"},
		{"POST", path, create(`"IPv6Address":"2001:db9::1",`), "ipv6 address 2001:db9::1 is not in subnet 2001:db8::/64", 400, "invalid"},
		{"POST", path, strings.Replace(create(`"IPv6Address":"2001:db8::9",`), "web", "other", 1), "subnet length 0 is invalid: network other.blue has no ipv6 subnet", 400, "invalid"},
		{"POST", path, strings.Replace(create(""), `"x"`, `"a/b"`, 1), `endpoint "a/b": want a container or host name without a slash`, 400, "invalid"},
		{"POST", mastercfg.DeleteEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"x"}`,
			"key not found: endpoint web.blue-x", 404, "not-found"},
		{"POST", mastercfg.DeleteEndpointPath, `{"TenantName":"blue","NetworkName":"web","EndpointID":"c1","Host":"another"}`,
			"host another has no endpoint web.blue-c1", 404, "not-found"},
	})
	for _, c := range []string{"p1", "p2"} {
		b.endpoint("blue", "web", "pool", c)
	}
	b.refused("POST", path, create(`"ServiceName":"pool",`), "auto allocation failed - address exhaustion in pool 10.7.0.50-10.7.0.51", 409, "exhausted")
}

func TestManyClientsNeverGetTheSameAddressAndAFullNetworkSaysSo(t *testing.T) {
	b := withGroup(t)
	var mu sync.Mutex
	seen, failures := map[string]string{}, map[string]int{}
	var running sync.WaitGroup
	for client := range 64 {
		running.Go(func() {
			for i := range 5 {
				container := fmt.Sprintf("c%d-%d", client, i)
				ep, failure := create(b, container, mastercfg.ConfigEP{ServiceName: "front"})
				mu.Lock()
				switch other := seen[ep.IPAddress]; {
				case failure != "":
					failures[failure]++
				case other != "":
					t.Errorf("%s went to %s and %s", ep.IPAddress, other, container)
				default:
					seen[ep.IPAddress] = container
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	// 256 addresses without the first, the last and the gateway.
	const room = 253
	want := map[string]int{"auto allocation failed - address exhaustion in subnet 10.7.0.0/24": 64*5 - room}
	if diff := cmp.Diff(want, failures); diff != "" || len(seen) != room {
		t.Errorf("%d addresses, failures: %s", len(seen), diff)
	}
	if got := counts(b); got != [3]int{room, 2 * room, room} {
		t.Errorf("counters %v", got)
	}
}

func TestDockerAllocatesFirstAndNamesTheAddressThen(t *testing.T) {
	b := withGroup(t)
	alloc := func(req mastercfg.AllocAddressRequest) (string, string) {
		answer, failure := tryPlug[mastercfg.AllocAddressResponse](b, mastercfg.AllocAddressPath, req)
		return answer.IPv4Address, failure
	}
	addr, failure := alloc(mastercfg.AllocAddressRequest{NetworkID: "web.blue"})
	if failure != "" || addr != "10.7.0.1/24" {
		t.Fatal(addr, failure)
	}
	ep, failure := create(b, "c1", mastercfg.ConfigEP{IPAddress: "10.7.0.1"})
	if failure != "" || ep.IPAddress != "10.7.0.1" {
		t.Fatal(ep, failure)
	}
	release := func(id, addr string) {
		t.Helper()
		if got := plug[mastercfg.ReleaseAddressResponse](b, mastercfg.ReleaseAddressPath,
			mastercfg.ReleaseAddressRequest{NetworkID: id, IPv4Address: addr}); got.Status != "success" {
			t.Errorf("release %s: %+v", addr, got)
		}
	}
	release("web.blue|10.7.0.0/24", "10.7.0.1") // the endpoint keeps it
	if _, failure := create(b, "c2", mastercfg.ConfigEP{IPAddress: "10.7.0.1"}); failure == "" {
		t.Error("an address in use was given again")
	}
	b.noEndpoint("blue", "web", "c1")
	release("web.blue|10.7.0.0/24", "10.7.0.1")
	if got := counts(b); got != [3]int{0, 0, 0} {
		t.Errorf("counters %v", got)
	}
	for _, c := range []struct {
		req           mastercfg.AllocAddressRequest
		want, failure string
	}{
		{mastercfg.AllocAddressRequest{AddressPool: "10.7.0.0/24"}, "10.7.0.1/24", ""},
		{mastercfg.AllocAddressRequest{AddressPool: "10.7.0.0/24:blue"}, "10.7.0.2/24", ""},
		{mastercfg.AllocAddressRequest{NetworkID: "web:front.blue"}, "10.7.0.3/24", ""},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue|10.7.0.0/24", PreferredIPv4Address: "10.7.0.77"}, "10.7.0.77/24", ""},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue", AddressPool: "2001:db8::/64"}, "2001:db8::3/64", ""},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue", PreferredIPv4Address: "10.7.0.77"}, "", "requested address 10.7.0.77 is not available in network web.blue"},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue", AddressPool: "2001:db8::/64", PreferredIPv4Address: "2001:db8::77"}, "2001:db8::77/64", ""},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue", PreferredIPv4Address: "2001:db8::78"}, "2001:db8::78/64", ""},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue", PreferredIPv4Address: "2001:db8::77"}, "", "requested address 2001:db8::77 is not available in network web.blue"},
		{mastercfg.AllocAddressRequest{NetworkID: "web.blue", AddressPool: "2001:db8::/64", PreferredIPv4Address: "10.7.0.78"}, "", "ipv6 address 10.7.0.78 is not in subnet 2001:db8::/64"},
		{mastercfg.AllocAddressRequest{NetworkID: "none.blue"}, "", "key not found: network none.blue"},
		{mastercfg.AllocAddressRequest{NetworkID: "web:none.blue"}, "", "key not found: group web:none.blue"},
		{mastercfg.AllocAddressRequest{AddressPool: "10.9.0.0/24"}, "", "network not found"},
		{mastercfg.AllocAddressRequest{AddressPool: "10.9.0.0"}, "", `address pool "10.9.0.0": want subnet/length`},
	} {
		if got, failure := alloc(c.req); got != c.want || failure != c.failure {
			t.Errorf("%+v: %q %q", c.req, got, failure)
		}
	}
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/red:web", `{"tenantName":"red","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24"}`)
	if _, failure := alloc(mastercfg.AllocAddressRequest{AddressPool: "10.7.0.0/24"}); failure != "address pool 10.7.0.0/24 is ambiguous: several networks have it, name a network, or a tenant as in 10.7.0.0/24:TENANT" {
		t.Error(failure)
	}
}

func TestContainerEventsLabelTheEndpoint(t *testing.T) {
	b := withGroup(t)
	b.endpoint("blue", "web", "front", "c1")
	update := func(body string) string {
		return b.ok("POST", mastercfg.UpdateEndpointPath, body)
	}
	// The network is named by one of its groups here.
	got := update(`{"IPAddress":"10.7.0.1","ContainerID":"abc","Labels":{"app":"web"},"Tenant":"blue","Network":"front","Event":"start","EndpointID":"c1","EPCommonName":"web-1"}`)
	if got != `{"IPAddress":"10.7.0.1"}` {
		t.Errorf("start answered %s", got)
	}
	ep := record[mastercfg.CfgEndpointState](b, mastercfg.EndpointPrefix+"web.blue-c1")
	if ep.ContainerID != "abc" || ep.Labels["app"] != "web" || ep.EPCommonName != "web-1" {
		t.Errorf("record %+v", ep)
	}
	if got := update(`{"ContainerID":"nobody","Event":"die"}`); got != "null" {
		t.Errorf("die answered %s", got)
	}
	if got := update(`{"IPAddress":"10.7.0.1"}`); got != `{"IPAddress":"10.7.0.1"}` {
		t.Errorf("no event answered %s", got)
	}
	b.refuseAll([]refusal{
		{"POST", mastercfg.UpdateEndpointPath, `{"Event":"die"}`, `invalid ProviderID "": event die names no container`, 400, "invalid"},
		{"POST", mastercfg.UpdateEndpointPath, `{"Event":"start","ContainerID":"x","Tenant":"blue","Network":"web","EndpointID":"none"}`,
			"key not found: endpoint web.blue-none", 404, "not-found"},
	})
}

// Two networks with one subnet in different tenants assign equal addresses.
func TestTenantsDoNotShareAddresses(t *testing.T) {
	b := withGroup(t)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/red:web", `{"tenantName":"red","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24"}`)
	for _, tenant := range []string{"blue", "red"} {
		if ep := b.endpoint(tenant, "web", "", "c"); netip.MustParseAddr(ep.IPAddress) != netip.MustParseAddr("10.7.0.1") {
			t.Errorf("%s got %s", tenant, ep.IPAddress)
		}
	}
	blue, red := record[mastercfg.VRFState](b, mastercfg.VRFPrefix+"blue"), record[mastercfg.VRFState](b, mastercfg.VRFPrefix+"red")
	if blue.VRF == red.VRF || blue.VRF == 0 || red.VRF == 0 {
		t.Errorf("routing domains %+v and %+v", blue, red)
	}
}

// An assigned address remains assigned, also when the group with its range is deleted.
func TestAddressesHeldOfAGroupStayWithWhoGotThem(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "endpointGroups/blue:pooled", `{"tenantName":"blue","groupName":"pooled","networkName":"web","ipPool":"10.7.0.1-10.7.0.2"}`)
	allocate := func(pool string) string {
		answer := plug[mastercfg.AllocAddressResponse](b, mastercfg.AllocAddressPath, mastercfg.AllocAddressRequest{NetworkID: pool})
		return answer.IPv4Address
	}
	if got := allocate("web:pooled.blue"); got != "10.7.0.1/24" {
		t.Fatalf("got %s", got)
	}
	b.ok("DELETE", "endpointGroups/blue:pooled", "")
	if got := inspected[contivmodel.NetworkOper](b, "networks/blue:web"); got.AllocatedAddressesCount != 1 || got.AllocatedIPAddresses != "10.7.0.1, 10.7.0.254" {
		t.Errorf("%d addresses, %s", got.AllocatedAddressesCount, got.AllocatedIPAddresses)
	}
	if got := allocate("web.blue"); got != "10.7.0.2/24" {
		t.Errorf("then the network gave %s", got)
	}
	b.refused("POST", "endpointGroups/blue:pooled", `{"tenantName":"blue","groupName":"pooled","networkName":"web","ipPool":"10.7.0.1-10.7.0.2"}`,
		"ip address 10.7.0.1 is not available", 409, "conflict")
	if ep, failure := create(b, "c1", mastercfg.ConfigEP{IPAddress: "10.7.0.1"}); failure != "" || ep.IPAddress != "10.7.0.1" {
		t.Errorf("who names it gets %s, %s", ep.IPAddress, failure)
	}
}

// A runtime releases an address under the name of its allocation, whether or not that group still exists.
func TestAnAddressIsGivenBackWhenItsGroupIsGone(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "endpointGroups/blue:pooled", `{"tenantName":"blue","groupName":"pooled","networkName":"web","ipPool":"10.7.0.1-10.7.0.2"}`)
	plug[mastercfg.AllocAddressResponse](b, mastercfg.AllocAddressPath, mastercfg.AllocAddressRequest{NetworkID: "web:pooled.blue"})
	b.ok("DELETE", "endpointGroups/blue:pooled", "")
	for _, id := range []string{"web:pooled.red", "web:pooled", "other:pooled.blue"} {
		if _, failure := tryPlug[mastercfg.ReleaseAddressResponse](b, mastercfg.ReleaseAddressPath, mastercfg.ReleaseAddressRequest{NetworkID: id, IPv4Address: "10.7.0.1"}); failure == "" {
			t.Errorf("an address was given back to %s", id)
		}
	}
	if got := inspected[contivmodel.NetworkOper](b, "networks/blue:web"); got.AllocatedIPAddresses != "10.7.0.1, 10.7.0.254" {
		t.Errorf("it is held no more: %s", got.AllocatedIPAddresses)
	}
	plug[mastercfg.ReleaseAddressResponse](b, mastercfg.ReleaseAddressPath, mastercfg.ReleaseAddressRequest{NetworkID: "web:pooled.blue", IPv4Address: "10.7.0.1"})
	if got := inspected[contivmodel.NetworkOper](b, "networks/blue:web"); got.AllocatedIPAddresses != "10.7.0.254" {
		t.Errorf("it is held still: %s", got.AllocatedIPAddresses)
	}
}

// An endpoint costs one write of its own record, in any network.
func TestAnEndpointCostsOneSmallRecordInAnyNetwork(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:small", with(web)(`,"networkName":"small","subnet":"10.1.0.0/29","gateway":"10.1.0.6"`))
	b.ok("POST", "networks/blue:large", with(web)(`,"networkName":"large","subnet":"11.0.0.0/8","gateway":"11.0.0.254"`))
	b.ok("POST", "endpointGroups/blue:pooled", `{"tenantName":"blue","groupName":"pooled","networkName":"large","ipPool":"11.128.0.0-11.255.255.254"}`)
	for _, home := range [][2]string{{"small", ""}, {"large", ""}, {"large", "pooled"}} {
		before := storetest.Dump(t, b.db)
		ep := b.endpoint("blue", home[0], home[1], "c"+home[1])
		after := storetest.Dump(t, b.db)
		for key, value := range before {
			if after[key] != value {
				t.Errorf("an endpoint in %v rewrote %s", home, key)
			}
		}
		if len(after) != len(before)+1 || len(after[mastercfg.EndpointPrefix+ep.ID]) > 512 {
			t.Errorf("an endpoint in %v wrote %d keys, its record has %d bytes", home, len(after)-len(before), len(after[mastercfg.EndpointPrefix+ep.ID]))
		}
	}
}
