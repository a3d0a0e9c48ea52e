package agent

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func serviceValue(ports string) string {
	return `{"id":"shop:blue","servicename":"shop","tenantname":"blue","subnet":"web","ports":[` + ports + `],"selectors":{"app":"web"},"ipaddress":"10.1.0.200"}`
}

// A service joins records that come in any order, and follows each of them.
func TestAServiceIsItsRecordItsNetworkAndItsProviders(t *testing.T) {
	const id = "shop:blue"
	n := blueHere(t)
	n.step()
	provider := func(address string) string { return mastercfg.ProviderKey(id, address) }
	n.put(provider("10.1.0.9"), `{}`).expect("a provider of nothing")
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP","53:5353:udp"`)).expect("the service", "+service "+id)
	n.put(provider("10.1.0.3"), `{}`).expect("another provider", "+service "+id)
	want := pipeline.Service{ID: id, VRF: 1, Tag: 1, VIP: netip.MustParseAddr("10.1.0.200"),
		Ports:     []pipeline.ServicePort{{Protocol: 6, Port: 80, Target: 8080}, {Protocol: 17, Port: 53, Target: 5353}},
		Providers: []netip.Addr{netip.MustParseAddr("10.1.0.3"), netip.MustParseAddr("10.1.0.9")}}
	key := pipeline.Key{Kind: pipeline.KindService, ID: id}
	if got, err := n.cache.wanted(key); err != nil || !got.Equal(want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	n.put(provider("10.1.0.3"), `{"id":"10.1.0.3"}`).expect("the same again")
	n.del(provider("10.1.0.9")).expect("a provider goes", "+service "+id)

	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge"}`).step()
	if _, err := n.cache.wanted(key); !fault.Is(err, fault.Mode) {
		t.Errorf("in a bridged network: %v", err)
	}
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`).step()
	if _, err := n.cache.wanted(key); err != nil {
		t.Error(err)
	}
	for _, ports := range []string{`"80:8080"`, `"80:8080:sctp"`, `"0:8080:tcp"`, `"80:65536:tcp"`} {
		n.put(mastercfg.ServiceLBPrefix+id, serviceValue(ports)).step()
		if _, err := n.cache.wanted(key); !fault.Is(err, fault.NotFound) {
			t.Errorf("port %s: %v", ports, err)
		}
	}
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:tcp"`)).expect("can be used again", "+service "+id)
	n.del(mastercfg.ServiceLBPrefix+id).expect("the service goes", "-service "+id)
}
