package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
)

func TestTheFirstNetworksAreMadeTogetherAndOnce(t *testing.T) {
	b := booted(t)
	before := storetest.Dump(t, b.db)
	pods := &contivmodel.Network{TenantName: "default", NetworkName: "default-net", Encap: "vxlan", Subnet: "10.128.0.0/14", Gateway: "10.128.0.1"}
	nodes := &contivmodel.Network{TenantName: "default", NetworkName: "contivh1", Encap: "vxlan", NwType: "infra", Subnet: "10.127.0.0/16", Gateway: "10.127.0.1"}
	wrong := *nodes
	wrong.Subnet = "10.130.0.0/16"
	if made, err := b.api.FirstNetworks(t.Context(), pods, &wrong); err == nil || made {
		t.Errorf("networks that overlap: %v, %v", made, err)
	}
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("refused networks leave %s", diff)
	}
	if made, err := b.api.FirstNetworks(t.Context(), pods, nodes); err != nil || !made {
		t.Fatalf("%v, %v", made, err)
	}
	b.ok("GET", "networks/default:default-net", "")
	b.ok("DELETE", "networks/default:default-net", "")
	if made, err := b.api.FirstNetworks(t.Context(), pods, nodes); err != nil || made {
		t.Errorf("beside a network: %v, %v", made, err)
	}
	b.ok("DELETE", "networks/default:contivh1", "")
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	if made, err := b.api.FirstNetworks(t.Context(), pods, nodes); err != nil || made {
		t.Errorf("beside a tenant: %v, %v", made, err)
	}
}
