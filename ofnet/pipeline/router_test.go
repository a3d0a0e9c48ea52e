package pipeline

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

func TestARoutedVLANWantsTheFlowsOfItsGoldenFile(t *testing.T) {
	compareGolden(t, filepath.Join("testdata", "router.golden"), wantsText(New(Config{UplinkPort: exampleTunnelPort}), routedWorld...))
}

// routedWorld is a network, its endpoints, a service, the node as a router, its neighbours and routes.
var routedWorld = []Object{
	routedVLAN, here(rv1), rv2, asRouter, borderA, borderB, rvShop,
	Route{Prefix: prefix("0.0.0.0/0"), NextHop: borderA.Address},
	Route{Prefix: prefix("10.1.8.2/32"), NextHop: addr("192.0.2.8")},
	Route{Prefix: prefix("2001:db8:1::/48"), NextHop: borderB.Address},
	HopGroup{Number: FirstRouteGroup + 7, NextHops: []netip.Addr{borderA.Address, addr("192.0.2.2")}},
	Route{Prefix: prefix("198.51.100.0/24"), Group: FirstRouteGroup + 7},
}

// Longer prefixes precede shorter ones, and those that must not be routed precede all.
func TestTheLongestPrefixIsLookedAtFirst(t *testing.T) {
	p, last := New(Config{UplinkPort: exampleTunnelPort}), uint16(0)
	for bits := range 129 {
		flows := flowsOf(p, Route{Prefix: netip.PrefixFrom(addr("2001:db8::"), bits).Masked(), NextHop: borderB.Address}, 0)
		if len(flows) != 1 || flows[0].Priority <= last {
			t.Fatalf("/%d: %v after %d", bits, flows, last)
		}
		last = flows[0].Priority
	}
	if last >= priorityNoRoute {
		t.Errorf("/128 has %d, what is not routed %d", last, priorityNoRoute)
	}
}

func TestRoutesThatMakeNoSenseAreRefused(t *testing.T) {
	a, b := borderA.Address, addr("192.0.2.2")
	for name, odd := range map[string]Object{
		"not a prefix":         Route{Prefix: netip.MustParsePrefix("10.1.1.1/24"), NextHop: a},
		"no next hop":          Route{Prefix: prefix("10.1.1.0/24")},
		"0/24: group 5 is not": Route{Prefix: prefix("10.1.1.0/24"), Group: 5},
		"hops: group 5 is not": HopGroup{Number: 5, NextHops: []netip.Addr{a, b}},
		"831: no next hop":     HopGroup{Number: FirstRouteGroup + 7},
		"not that of one":      NextHop{Address: a, MAC: [6]byte{1}, From: asRouter.MAC},
		"MAC 000000000000":     Router{ID: "inb01", IPv4: a},
		"is not an IPv4 ad":    Router{ID: "inb01", MAC: asRouter.MAC, IPv4: asRouter.IPv6},
	} {
		if _, err := New(Config{UplinkPort: 1}).For(odd, 1); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
