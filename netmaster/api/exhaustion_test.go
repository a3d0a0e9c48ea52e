package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestPoolOfThreeAddressesIsSharedByEndpointsAndServices(t *testing.T) {
	b := booted(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:web", `{"tenantName":"blue","networkName":"web","encap":"vxlan","subnet":"10.7.0.4-10.7.0.6/24"}`)
	const none = "auto allocation failed - address exhaustion in subnet 10.7.0.0/24"
	before := storetest.Dump(t, b.db)
	b.endpoint("blue", "web", "", "c1")
	b.endpoint("blue", "web", "", "c2")
	b.ok("POST", "serviceLBs/blue:lb", lb)
	if got := b.vip("lb"); got != "10.7.0.6" {
		t.Errorf("virtual address %s", got)
	}
	b.refuseAll([]refusal{
		{"POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"c3"}}`, none, 409, "exhausted"},
		{"POST", mastercfg.AllocAddressPath, `{"NetworkID":"web.blue"}`, none, 409, "exhausted"},
		{"POST", "serviceLBs/blue:other", with(lb)(`,"serviceName":"other"`), none, 409, "exhausted"},
	})
	b.noEndpoint("blue", "web", "c1")
	b.ok("POST", "serviceLBs/blue:other", with(lb)(`,"serviceName":"other"`))
	if got := b.vip("other"); got != "10.7.0.4" {
		t.Errorf("virtual address %s, want the freed one", got)
	}
	b.ok("DELETE", "serviceLBs/blue:lb", "")
	if ep := b.endpoint("blue", "web", "", "c4"); ep.IPAddress != "10.7.0.6" {
		t.Errorf("address %s, want that of the deleted service", ep.IPAddress)
	}
	b.ok("DELETE", "serviceLBs/blue:other", "")
	b.noEndpoint("blue", "web", "c2")
	b.noEndpoint("blue", "web", "c4")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestIPv6SubnetOfThreeHosts(t *testing.T) {
	b := booted(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:web", with(web)(`,"ipv6Subnet":"2001:db8::10/126"`))
	for i, container := range []string{"c1", "c2", "c3"} {
		if ep := b.endpoint("blue", "web", "", container); ep.IPv6Address != []string{"2001:db8::11", "2001:db8::12", "2001:db8::13"}[i] {
			t.Errorf("%s has %s", container, ep.IPv6Address)
		}
	}
	const none = "Reached MaxHosts (3), no address left in ipv6 subnet 2001:db8::10/126"
	b.refuseAll([]refusal{ // and the IPv4 address that was free stays so
		{"POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"c4"}}`, none, 409, "exhausted"},
		{"POST", mastercfg.AllocAddressPath, `{"NetworkID":"web.blue","AddressPool":"2001:db8::10/126"}`, none, 409, "exhausted"},
	})
	b.noEndpoint("blue", "web", "c2")
	if ep := b.endpoint("blue", "web", "", "c4"); ep.IPv6Address != "2001:db8::12" || ep.IPAddress != "10.7.0.2" {
		t.Errorf("addresses %s and %s, want the freed ones", ep.IPAddress, ep.IPv6Address)
	}
}

func TestGroupPoolOfThreeAddresses(t *testing.T) {
	b := booted(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","ipPool":"10.7.0.10-10.7.0.12"}`)
	for _, container := range []string{"c1", "c2", "c3"} {
		b.endpoint("blue", "web", "front", container)
	}
	b.refused("POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"c4","ServiceName":"front"}}`,
		"auto allocation failed - address exhaustion in pool 10.7.0.10-10.7.0.12", 409, "exhausted")
	b.noEndpoint("blue", "web", "c2")
	if ep := b.endpoint("blue", "web", "front", "c4"); ep.IPAddress != "10.7.0.11" {
		t.Errorf("address %s, want the freed one", ep.IPAddress)
	}
}

func TestTagRangesOfTwo(t *testing.T) {
	for _, c := range []struct{ encap, none string }{{"vlan", "no vlans available"}, {"vxlan", "no vxlans available"}} {
		t.Run(c.encap, func(t *testing.T) {
			b := start(t)
			b.ok("POST", "globals/global", `{"name":"global","fwdMode":"routing","vlans":"10-11","vxlans":"20-21","pvtSubnet":"172.19.0.0/16"}`)
			b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
			before := storetest.Dump(t, b.db)
			network := func(name, subnet string) string {
				body, _ := json.Marshal(map[string]string{"tenantName": "blue", "networkName": name, "encap": c.encap, "subnet": subnet})
				return string(body)
			}
			b.ok("POST", "networks/blue:a", network("a", "10.1.0.0/24"))
			b.ok("POST", "networks/blue:b", network("b", "10.2.0.0/24"))
			b.refused("POST", "networks/blue:c", network("c", "10.3.0.0/24"), c.none, 409, "exhausted")
			tag := record[mastercfg.CfgNetworkState](b, mastercfg.NetworkPrefix+"a.blue")
			b.ok("DELETE", "networks/blue:a", "")
			b.ok("POST", "networks/blue:c", network("c", "10.3.0.0/24"))
			if got := record[mastercfg.CfgNetworkState](b, mastercfg.NetworkPrefix+"c.blue"); got.PktTag != tag.PktTag || got.ExtPktTag != tag.ExtPktTag {
				t.Errorf("tags %d %d, want the freed ones, %d %d", got.PktTag, got.ExtPktTag, tag.PktTag, tag.ExtPktTag)
			}
			b.ok("DELETE", "networks/blue:b", "")
			b.ok("DELETE", "networks/blue:c", "")
			if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

func TestLongGroupIDsAtTheLimit(t *testing.T) {
	testkit.TakesLong(t)
	b := booted(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:web", web)
	_, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		for id := 1; id < 32767; id++ {
			tx.Put(fmt.Sprintf("%sg%d:red", mastercfg.EndpointGroupPrefix, id), fmt.Appendf(nil, `{"endpointGroupId":%d}`, id))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	group := func(name string) string {
		return `{"tenantName":"blue","groupName":"` + name + `","networkName":"web"}`
	}
	b.ok("POST", "endpointGroups/blue:last", group("last"))
	if got := record[mastercfg.EndpointGroupState](b, mastercfg.EndpointGroupPrefix+"last:blue").EndpointGroupID; got != 32767 {
		t.Errorf("id %d", got)
	}
	b.refused("POST", "endpointGroups/blue:more", group("more"), "no endpoint group ids available", 409, "exhausted")
	b.ok("DELETE", "endpointGroups/blue:last", "")
	b.ok("POST", "endpointGroups/blue:more", group("more"))
	if got := record[mastercfg.EndpointGroupState](b, mastercfg.EndpointGroupPrefix+"more:blue").EndpointGroupID; got != 32767 {
		t.Errorf("id %d, want the freed one", got)
	}
}

// An event for a Kubernetes pod has its name there, and the runtime gets the event's text.
func TestAPodWithoutAnAddressIsToldOf(t *testing.T) {
	b := booted(t)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:web", `{"tenantName":"blue","networkName":"web","encap":"vxlan","subnet":"10.7.0.4-10.7.0.4/24"}`)
	var told []PodAddress
	b.api.TellAddresses(func(p PodAddress) { told = append(told, p) })
	pod := func(name string) string {
		return fmt.Sprintf(`{"TenantName":"blue","NetworkName":"web","EPCommonName":%q,"PodNamespace":"shop","PodUID":"u-%s","ConfigEP":{"Container":"c-%s","Host":"h1"}}`, name, name, name)
	}
	b.ok("POST", mastercfg.CreateEndpointPath, pod("one"))
	const lack = "pod shop/two gets no address in network web of tenant blue: auto allocation failed - address exhaustion in subnet 10.7.0.0/24; " +
		"it gets one when another endpoint goes, or let it belong to another network, or to a group with another range (annotations io.contiv.network, io.contiv.net-group)"
	b.refused("POST", mastercfg.CreateEndpointPath, pod("two"), "PoolExhausted: "+lack, 409, "exhausted")
	b.refused("POST", mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"none","EPCommonName":"three","PodNamespace":"shop","PodUID":"u3","ConfigEP":{"Container":"c3","Host":"h1"}}`,
		"endpoint c3: key not found: network none of tenant blue", 422, "missing-reference")
	want := []PodAddress{{"shop", "one", "u-one", "h1", "", ""}, {"shop", "two", "u-two", "h1", "PoolExhausted", lack}}
	if diff := cmp.Diff(want, slices.Compact(told)); diff != "" {
		t.Error(diff)
	}
	full, before := fault.New(fault.Exhausted, "the store is full"), len(told)
	if err := b.api.tellPod(&mastercfg.CreateEndpointRequest{PodUID: "u4"}, full); err.Error() != full.Error() || len(told) != before {
		t.Errorf("a full store is told of as a network without addresses: %v", err)
	}
}
