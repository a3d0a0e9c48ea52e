package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Clients that enter by the uplink are served by the providers on this node, as these are added, drain, move and
// are removed; in a tunnel's network there are none for them.
func TestWhoComesInByTheUplinkIsServedByThisNodesProviders(t *testing.T) {
	const id = "shop:blue"
	vlan := func(text string) string { return strings.Replace(text, "vxlan", "vlan", 1) }
	provider := func(address string) string { return mastercfg.ProviderKey(id, address) }
	n := newNode(t)
	n.cache.uplink = true
	n.put(mastercfg.GlobalConfigKey, globalValue).put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), vlan(netValue("blue", ""))).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).
		put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3")).
		put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP"`)).step()
	outer := func() (serving, draining []netip.AddrPort) {
		t.Helper()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range o.(pipeline.Service).Ports {
			if p.From == pipeline.FromOutside {
				serving, draining = slices.Concat(serving, p.Serving), slices.Concat(draining, p.Draining)
			}
		}
		return serving, draining
	}
	here := netip.MustParseAddrPort("10.1.0.2:8080")
	for _, step := range []struct {
		what              string
		change            func()
		serving, draining int
	}{
		{"nobody provides", func() {}, 0, 0},
		{"one elsewhere", func() { n.put(provider("10.1.0.3"), `{}`).expect("one elsewhere", "+service "+id) }, 0, 0},
		{"one here", func() { n.put(provider("10.1.0.2"), `{}`).expect("one here", "+service "+id) }, 1, 0},
		{"it drains", func() { n.put(provider("10.1.0.2"), `{"Draining":true}`).expect("it drains", "+service "+id) }, 0, 1},
		{"it serves again", func() { n.put(provider("10.1.0.2"), `{}`).step() }, 1, 0},
		{"it moves away", func() {
			n.put(epKey("web.blue-1"), epValue("web.blue", "node2", "10.1.0.2")).put(epKey("web.blue-3"), epValue("web.blue", me, "10.1.0.4")).step()
		}, 0, 0},
		{"it comes back", func() {
			n.put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2"))
			n.expect("it comes back", "+endpoint web.blue-1", "+service "+id)
		}, 1, 0},
		{"a tunnel's network", func() { n.put(netKey("web.blue"), netValue("blue", "")).step() }, 0, 0},
		{"a bridged VLAN", func() {
			n.put(netKey("web.blue"), vlan(netValue("blue", ""))).put(mastercfg.GlobalConfigKey, strings.Replace(globalValue, "routing", "bridge", 1)).step()
		}, 0, 0},
		{"a routed one", func() { n.put(mastercfg.GlobalConfigKey, globalValue).step() }, 1, 0},
	} {
		step.change()
		serving, draining := outer()
		if len(serving) != step.serving || len(draining) != step.draining || slices.ContainsFunc(slices.Concat(serving, draining), func(a netip.AddrPort) bool { return a != here }) {
			t.Errorf("%s: served by %v, draining %v", step.what, serving, draining)
		}
	}
}

// An endpoint in another tenant's network on the tunnel may have the address of a provider on another node.
func TestAnAddressInATunnelsNetworkServesNobodyOfAVLAN(t *testing.T) {
	const id = "shop:blue"
	vlan := func(text string) string { return strings.Replace(text, "vxlan", "vlan", 1) }
	n := newNode(t)
	n.cache.uplink = true
	n.put(mastercfg.GlobalConfigKey, globalValue).put(vrfKey("blue"), `{"vrf":1}`).put(vrfKey("red"), `{"vrf":2}`).
		put(netKey("web.blue"), vlan(netValue("blue", ""))).put(netKey("web.red"), netValue("red", "")).
		put(epKey("web.blue-1"), epValue("web.blue", "node2", "10.1.0.2")).put(epKey("web.blue-2"), epValue("web.blue", me, "10.1.0.3")).
		put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP"`)).put(mastercfg.ProviderKey(id, "10.1.0.2"), `{}`).step()
	served := func(what string, want bool) {
		t.Helper()
		o, ok := n.planner.given[pipeline.Key{Kind: pipeline.KindService, ID: id}].(pipeline.Service)
		if !ok {
			t.Fatalf("%s: there is no service", what)
		}
		if got := slices.ContainsFunc(o.Ports, func(p pipeline.ServicePort) bool { return p.From == pipeline.FromOutside }); got != want {
			t.Errorf("%s: it is served here: %t, want %t", what, got, want)
		}
	}
	served("elsewhere", false)
	n.put(epKey("web.red-1"), epValue("web.red", me, "10.1.0.2")).step()
	served("a tunnel's endpoint has the address", false)
	n.put(netKey("web.red"), vlan(netValue("red", ""))).step()
	served("its network becomes a VLAN's", true)
	n.put(netKey("web.red"), netValue("red", "")).step()
	served("and a tunnel's again", false)
}
