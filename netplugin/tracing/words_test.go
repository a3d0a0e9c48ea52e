package tracing

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Objects of Kubernetes do not name their tenant.
func TestObjectsOfKubernetesAreToldToTheirTenant(t *testing.T) {
	w := &world{tenant: "red", vrf: 2, endpoints: map[string]pipeline.Endpoint{
		"a": {ID: "a", Tenant: "red", Class: 7}, "b": {ID: "b", Tenant: "blue", Class: 8},
	}}
	for _, c := range []struct {
		object pipeline.Object
		want   string
	}{
		{pipeline.Service{ID: "k8s/shop/web", VRF: 2}, "service k8s/shop/web"},
		{pipeline.Service{ID: "k8s/shop/web", VRF: 3}, "service"},
		{pipeline.Service{ID: "k8s/shop/web", VRF: pipeline.SharedVRF}, "service"},
		{pipeline.Service{ID: "web:red", VRF: pipeline.SharedVRF}, "service web:red"},
		{pipeline.TierRule{ID: "shop/p#2", Subjects: []uint16{6, 7}}, "tier rule shop/p"},
		{pipeline.TierRule{ID: "shop/p", Subjects: []uint16{8}, Peers: []uint16{7}}, "tier rule"},
		{pipeline.FloodSet{Network: "web.blue"}, "flood set"},
		{pipeline.Epoch{}, "epoch"},
	} {
		if got := w.owner(c.object); got != c.want {
			t.Errorf("%+v: %q, want %q", c.object, got, c.want)
		}
	}
	w.vrf = pipeline.SharedVRF
	if got := w.owner(pipeline.Service{ID: "k8s/shop/web", VRF: pipeline.SharedVRF}); got != "service" {
		t.Error(got)
	}
}

// With externalTrafficPolicy Local, a service has a port of its own for clients outside, with the providers of this node.
func TestOnlyTheProvidersOfPodsAreNamed(t *testing.T) {
	external := netip.MustParseAddr("203.0.113.10")
	here, there := netip.MustParseAddrPort("10.1.0.1:8080"), netip.MustParseAddrPort("10.1.0.2:8080")
	w := &world{tenant: "red", vrf: 2, services: []pipeline.Service{{ID: "k8s/shop/web", VRF: 2, Ports: []pipeline.ServicePort{
		{Address: external, From: pipeline.FromPods | pipeline.FromHost, Protocol: 6, Port: 80, Serving: []netip.AddrPort{here, there}},
		{Address: external, From: pipeline.FromOutside, Protocol: 6, Port: 80, Serving: []netip.AddrPort{here}},
	}}}}
	got := w.providers(target{address: external, service: true}, Query{Protocol: "tcp", Port: 80})
	if want := []string{here.String(), there.String()}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
