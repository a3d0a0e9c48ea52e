package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// six is a network without IPv4.
const six = `{"tenantName":"blue","networkName":"web","encap":"vxlan","ipv6Subnet":"2001:db8::/64","ipv6Gateway":"2001:db8::1"}`

func TestANetworkMayHaveIPv6Only(t *testing.T) {
	b := ready(t)
	before := storetest.Dump(t, b.db)
	b.ok("POST", "networks/blue:web", six)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`)
	got := b.endpoint("blue", "web", "front", "c1")
	want := mastercfg.CfgEndpointState{ID: "web.blue-c1", NetID: "web.blue", EndpointID: "c1", ServiceName: "front", EndpointGroupID: 1,
		EndpointGroupKey: "front:blue", IPv6Address: "2001:db8::2", MacAddress: "02:02:00:00:00:02", HomingHost: "h1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if ep, failure := create(b, "c2", mastercfg.ConfigEP{IPv6Address: "2001:db8::a1:b2c3"}); failure != "" || ep.MacAddress != "02:02:00:a1:b2:c3" {
		t.Errorf("%s has MAC address %s; %s", ep.IPv6Address, ep.MacAddress, failure)
	}
	for request, want := range map[mastercfg.ConfigEP]string{
		{IPAddress: "10.1.1.1"}:                 "requested address 10.1.1.1 cannot be had in network web.blue, which has no IPv4 subnet",
		{IPv6Address: "2001:db8::1:0:2"}:        "requested ipv6 address 2001:db8::1:0:2 is not available in subnet 2001:db8::/64", // the MAC address of c1
		{IPv6Address: "2001:db8::ffff:ffff"}:    "",
		{IPv6Address: "2001:db8::ffff:ffff:1"}:  "requested ipv6 address 2001:db8::ffff:ffff:1 is not available in subnet 2001:db8::/64",
		{IPv6Address: "2001:db8:0:1::ffff:fff"}: "ipv6 address 2001:db8:0:1::ffff:fff is not in subnet 2001:db8::/64",
	} {
		if _, failure := create(b, "c3", request); failure != want {
			t.Errorf("%+v: %q, want %q", request, failure, want)
		} else if failure == "" {
			b.noEndpoint("blue", "web", "c3")
		}
	}
	addresses := inspected[contivmodel.NetworkOper](b, "networks/blue:web")
	if addresses.NumEndpoints != 2 || addresses.AllocatedAddressesCount != 2 || addresses.AllocatedIPAddresses+addresses.AvailableIPAddresses != "" {
		t.Errorf("%+v", addresses)
	}
	b.refuseAll([]refusal{
		{"POST", "serviceLBs/blue:lb", with(lb)(`,"ipAddress":"10.7.0.9"`), "requested address 10.7.0.9 cannot be had in network web.blue, which has no IPv4 subnet", 400, "invalid"},
		{"POST", "endpointGroups/blue:g", `{"tenantName":"blue","groupName":"g","networkName":"web","ipPool":"10.7.0.1-10.7.0.2"}`,
			"bad ip-pool 10.7.0.1-10.7.0.2: it cannot be in network web.blue, which has no IPv4 subnet", 400, "invalid"},
	})
	if got := b.ok("POST", mastercfg.AllocAddressPath, `{"NetworkID":"web.blue"}`); got != `{"NetworkID":"web.blue","IPv4Address":"2001:db8::3/64"}` {
		t.Error(got)
	}
	b.ok("POST", mastercfg.ReleaseAddressPath, `{"NetworkID":"web.blue","IPv4Address":"2001:db8::3"}`)
	b.noEndpoint("blue", "web", "c1")
	b.noEndpoint("blue", "web", "c2")
	b.ok("DELETE", "endpointGroups/blue:front", "")
	b.ok("DELETE", "networks/blue:web", "")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestANetworkNeedsASubnet(t *testing.T) {
	b := ready(t)
	net := func(members string) string {
		return `{"tenantName":"blue","networkName":"n","encap":"vxlan",` + members + `"x":0}`
	}
	b.ok("POST", "networks/blue:web", six)
	b.refuseAll([]refusal{
		{"POST", "networks/blue:n", net(""), "subnet string invalid format", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"gateway":"10.1.1.1",`), "subnet string invalid format", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"subnet":"10.1.1.0",`), "subnet string invalid format", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"subnet":"10.1.1.0","ipv6Subnet":"2001:db9::/64",`), "subnet string invalid format", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"ipv6Subnet":"2001:db9::/64","gateway":"10.1.1.1",`), "gateway 10.1.1.1 given without a subnet", 400, "invalid"},
		{"POST", "networks/blue:n", net(`"ipv6Subnet":"2001:db8::/60",`), "network web conflicts with subnetv6  2001:db8::/64", 409, "conflict"},
	})
}

func TestARuleThatNamesANetworkWithIPv6OnlyMeansItsSubnet(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", six)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`)
	b.ok("POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","action":"deny","direction":"in","fromNetwork":"web"}`)
	r := record[mastercfg.CfgPolicyRule](b, mastercfg.PolicyRulePrefix+"blue:front:blue:p:blue:p:1:inRx")
	if r.SrcIPAddr != "2001:db8::/64" {
		t.Errorf("from %q", r.SrcIPAddr)
	}
}
