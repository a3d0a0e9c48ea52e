package agent

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A tenant with a service for hosts is programmed on every node, and the host gets the service's translations.
func TestAServiceForHostsIsOnEveryNode(t *testing.T) {
	const id = "shop:blue"
	n := newNode(t).
		put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing","pvt-subnet":"172.19.0.0/16"}`).
		put(vrfKey("blue"), `{"vrf":1}`).
		put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3")).
		put(vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2")).
		put(mastercfg.ProviderKey(id, "10.1.0.3"), `{}`).
		put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP"`))
	n.cache.outside = true
	n.step()
	if _, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id}); err == nil {
		t.Error("a node without endpoints of the tenant serves them")
	}
	for range 2 { // created, and created again
		n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP"],"externalIPs":["198.51.100.80"],"nodePorts":["30080:80:tcp"`))
		if !n.cache.hostDirty {
			t.Error("the host is not told")
		}
		n.step()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		var at []string
		for _, p := range o.(pipeline.Service).Ports {
			at = append(at, netip.AddrPortFrom(p.Address, p.Port).String())
		}
		if want := []string{"10.1.0.200:80", "172.19.255.253:30080", "198.51.100.80:80"}; !slices.Equal(at, want) {
			t.Errorf("served at %v, want %v", at, want)
		}
		for _, key := range []pipeline.Key{{Kind: pipeline.KindNetwork, ID: "web.blue"}, {Kind: pipeline.KindEndpoint, ID: "web.blue-2"}} {
			if n.planner.given[key] == nil {
				t.Errorf("%s is not programmed", key)
			}
		}
	}
	in := n.cache.hostAccess().Entrances
	if len(in.Addresses) != 1 || len(in.NodePorts) != 1 || in.NodePorts[0] != (NodePort{6, 30080}) {
		t.Errorf("%+v", in)
	}
	n.cache.setNode(agentPrefix+"node2", netip.MustParseAddr("198.51.100.80"))
	if in := n.cache.hostAccess().Entrances; len(in.Addresses) != 0 {
		t.Errorf("the host leads the address of a node to the switch: %+v", in)
	}
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP"],"externalIPs":["2001:db8::80%x"`))
	n.step()
	if in := n.cache.hostAccess().Entrances; len(in.Addresses) != 0 {
		t.Errorf("the host leads an address that is not of one host: %+v", in)
	}
	n.cache.outside = false // endpoints are still served
	o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
	if err != nil || len(o.(pipeline.Service).Ports) != 2 || o.(pipeline.Service).Ports[1].From != pipeline.FromPods {
		t.Errorf("without a way by the host: %+v, %v", o, err)
	}
	n.del(mastercfg.ServiceLBPrefix + id).step()
	if len(n.planner.given) > 2 || len(n.cache.tenants.entered) > 0 { // the Outside and the other node remain
		t.Errorf("left: %v, %v", n.planner.given, n.cache.tenants.entered)
	}
}
