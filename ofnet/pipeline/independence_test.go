package pipeline

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// A driver replaces the flows of one object without comparing them with others. That is correct only if no two
// objects ever want the same place in the switch.
func TestNoTwoNetworksOrEndpointsShareAFlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := node1()
		owner := map[string]string{}
		claim := func(name string, o Object, port uint32) {
			for _, f := range flowsOf(p, o, port) {
				if other, taken := owner[f.MatchKey()]; taken {
					t.Fatalf("%s and %s both want %s", other, name, f)
				}
				owner[f.MatchKey()] = name
			}
		}
		for _, f := range p.Base().Flows {
			owner[f.MatchKey()] = "base"
		}
		// Tenants share subnets and MACs; within a tenant they differ.
		tenants := rapid.IntRange(1, 3).Draw(t, "tenants")
		networks := rapid.IntRange(1, 3).Draw(t, "networks")
		var port uint32 = 10
		for tenant := range tenants {
			for number := range networks {
				n := network(fmt.Sprintf("n%d.t%d", number, tenant), fmt.Sprintf("t%d", tenant),
					uint16(tenant+1), uint16(1+tenant*networks+number), fmt.Sprint(number))
				claim(n.ID, n, 0)
				for host := range rapid.IntRange(0, 2).Draw(t, "endpoints") {
					e := endpoint(fmt.Sprint(host), n, byte(host+1), uint16(rapid.IntRange(0, 2).Draw(t, "group")))
					if rapid.Bool().Draw(t, "IPv4 only") {
						e.IPv6 = netip.Addr{}
					}
					if host == 0 {
						e = here(e)
					}
					port++
					claim(e.ID, e, port)
				}
			}
		}
	})
}

func TestFlowsCarryTheCookieOfTheirObject(t *testing.T) {
	p := node1()
	classes := map[Object]cookie.Class{webBlue: cookie.Network, web2: cookie.Endpoint, Rule{ID: "r", Priority: 1}: cookie.Policy}
	for o, class := range classes {
		flows := flowsOf(p, o, 0)
		if len(flows) == 0 {
			t.Errorf("%v has no flows", o.Key())
		}
		for _, f := range flows {
			if f.Cookie != cookie.New(class, o.Key().ID) || f.Cookie != Cookie(o.Key()) {
				t.Errorf("%v: cookie %#x", o.Key(), f.Cookie)
			}
		}
	}
	for _, f := range p.Base().Flows {
		if cookie.ClassOf(f.Cookie) != cookie.Base {
			t.Errorf("base flow has cookie %#x", f.Cookie)
		}
	}
}

func TestAnEndpointWithoutAPlaceHasNoFlows(t *testing.T) {
	lost, ours := web2, web2
	lost.VTEP = netip.Addr{}
	ours.VTEP = vtep1
	for name, e := range map[string]Endpoint{
		"local, but without a port": here(web1), "remote, on a node nobody knows": lost, "remote, but behind our own tunnel address": ours,
	} {
		if flows := flowsOf(node1(), e, 0); len(flows) != 0 {
			t.Errorf("%s: %d flows", name, len(flows))
		}
	}
}

func BenchmarkFlows(b *testing.B) {
	p := node1()
	for _, bench := range []struct {
		name string
		o    Object
	}{
		{"local endpoint", here(web1)}, {"remote endpoint", web2}, {"network", webBlue},
		{"rule", tcpRule("allow", 10, 5432, "syn,!ack", true)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(flowsOf(p, bench.o, examplePort)) == 0 {
					b.Fatal("no flows")
				}
			}
		})
	}
}
