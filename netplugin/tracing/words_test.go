package tracing

import (
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
