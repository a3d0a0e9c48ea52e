package api

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

func TestStatusTellsHowKubernetesIsServed(t *testing.T) {
	b := ready(t)
	ask := func() *contivmodel.KubernetesStatus {
		var s contivmodel.Status
		if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/status", "")), &s); err != nil {
			t.Fatal(err)
		}
		return s.Kubernetes
	}
	if s := ask(); s != nil {
		t.Errorf("without Kubernetes: %+v", s)
	}
	b.api.config.ClusterMode = "kubernetes"
	if s := ask(); s.Problem == "" {
		t.Error("nobody follows an API server, and that is no problem")
	}
	b.api.Follows(func(context.Context) Following {
		return Following{Problem: "away", Waiting: 3, Behind: 4, Troubles: []contivmodel.KubernetesTrouble{{Object: "service shop/web", Reason: "AddressNotServed", Message: "because"}}}
	})
	b.ok("POST", "networks/blue:web", web)
	write := func(records map[string]string) {
		t.Helper()
		if _, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
			for key, value := range records {
				tx.Put(key, []byte(value))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	write(map[string]string{
		mastercfg.K8sNodePrefix + "h1":                                `{}`,
		mastercfg.K8sNodePrefix + "h2":                                `{}`,
		mastercfg.K8sServiceKey("blue", "shop", "web"):                `{}`,
		mastercfg.K8sServiceKey("default", "shop", "web"):             `{}`,
		mastercfg.K8sServiceKey("default", "shop", "none"):            `{}`,
		mastercfg.K8sBackendPrefix + "default/shop/web/-/10.1.1.1:80": `{"serving":true}`,
		mastercfg.K8sBackendPrefix + "blue/shop/web/-/10.1.1.1:80":    `{"terminating":true}`,
		mastercfg.K8sRangesKey:                                        `{"ranges":["10.7.0.0/16","fd00:1::/108"]}`,
		mastercfg.K8sPodKey("h1", "u1"):                               `{"namespace":"shop","name":"web","reason":"GroupNotFound","message":"no group"}`,
		mastercfg.K8sPodKey("h1", "u2"):                               `{"namespace":"shop","name":"db","later":"PlacementNeedsRestart: it stays: as it is"}`,
		mastercfg.K8sPodKey("h1", "u3"):                               `{"namespace":"shop","name":"well"}`,
	})
	b.same("status", ask(), &contivmodel.KubernetesStatus{
		Problem: "away", Waiting: 3, Behind: 4, Nodes: []string{"h1", "h2"},
		Services: 3, Unserved: []string{"blue/shop/web", "default/shop/none"},
		Troubles: []contivmodel.KubernetesTrouble{
			{Object: "pod shop/web", Reason: "GroupNotFound", Message: "no group"},
			{Object: "pod shop/db", Reason: "PlacementNeedsRestart", Message: "it stays: as it is"},
			{Object: "network blue/web", Reason: "RangesOverlap", Message: "its addresses, 10.7.0.0/24, overlap those of services, 10.7.0.0/16: pods reach only one of both; delete the network, or the ServiceCIDR, and make one of other addresses"},
			{Object: "service shop/web", Reason: "AddressNotServed", Message: "because"},
		},
	})
	refused := map[string]string{}
	for i := range maxTroubles {
		uid := fmt.Sprint("more", i)
		refused[mastercfg.K8sPodKey("h2", uid)] = `{"namespace":"shop","name":"` + uid + `","reason":"GroupNotFound","message":"no group"}`
	}
	write(refused)
	if s := ask(); len(s.Troubles) != maxTroubles || s.Untold != 4 {
		t.Errorf("%d troubles, %d untold", len(s.Troubles), s.Untold)
	}
}

// In a network with addresses of services pods would reach one or the other. Tenants without services have nothing
// to lose.
func TestANetworkHasNoAddressesOfServicesOfKubernetes(t *testing.T) {
	b := ready(t)
	if _, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		tx.Put(mastercfg.K8sServiceKey("blue", "shop", "web"), []byte(`{}`))
		tx.Put(mastercfg.K8sRangesKey, []byte(`{"ranges":["10.7.0.0/16","fd00:1::/108"]}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "tenants/default", `{"tenantName":"default"}`)
	network := func(tenant, subnets string) (path, body string) {
		return "networks/" + tenant + ":late", `{"tenantName":"` + tenant + `","networkName":"late","encap":"vxlan",` + subnets + `}`
	}
	const cause = ", the addresses of services of Kubernetes: pods would reach only one of both"
	for subnets, want := range map[string]string{
		`"subnet":"10.7.9.0/24"`:                             "network late: its subnet 10.7.9.0/24 overlaps 10.7.0.0/16" + cause,
		`"subnet":"10.7.1.2-10.7.1.9/24"`:                    "network late: its subnet 10.7.1.2-10.7.1.9/24 overlaps 10.7.0.0/16" + cause,
		`"subnet":"10.8.0.0/24","ipv6Subnet":"fd00:1::/100"`: "network late: its ipv6Subnet fd00:1::/100 overlaps fd00:1::/108" + cause,
	} {
		for _, tenant := range []string{"blue", "default"} {
			path, body := network(tenant, subnets)
			b.refused("POST", path, body, want, 409, "conflict")
		}
		path, body := network("red", subnets)
		b.ok("POST", path, body)
		b.ok("DELETE", path, "")
	}
	path, body := network("blue", `"subnet":"10.8.0.0/24"`)
	b.ok("POST", path, body)
}
