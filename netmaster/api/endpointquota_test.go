package api

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// endpointOf returns a request for an endpoint on h1.
func endpointOf(tenant, network, container string) string {
	return fmt.Sprintf(`{"TenantName":%q,"NetworkName":%q,"ConfigEP":{"Container":%q,"Host":"h1"}}`, tenant, network, container)
}

// However many endpoints are requested at once, a tenant gets no more than its limit, in all its networks
// together.
func TestATenantHasAsManyEndpointsAsItMayHave(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","maxEndpoints":4}`, 200, `"maxEndpoints":4`)
	b.want("proven:root", "POST", "networks/blue:green", green, 200, "")
	b.want("proven:root", "POST", "networks/blue:access", `{"tenantName":"blue","networkName":"access","encap":"vxlan","nwType":"infra","subnet":"10.10.0.0/24","gateway":"10.10.0.254"}`, 200, "")
	const full = "no endpoint is left: tenant blue may have 4, and has them: an operator can change its maxEndpoints"
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, endpointOf("blue", "access", "h1"), 200, "10.10.") // which does not count
	var made atomic.Int32
	var asking sync.WaitGroup
	for i := range 20 {
		asking.Go(func() {
			network := []string{"web", "green"}[i%2]
			if code, answer, _ := b.do("POST", mastercfg.CreateEndpointPath, endpointOf("blue", network, fmt.Sprint("c", i)), provenHeader, "node/h1", "Accept", fault.ProblemType); code == 200 {
				made.Add(1)
			} else if code != 409 {
				t.Errorf("%d %s", code, answer)
			}
		})
	}
	asking.Wait()
	if made.Load() != 4 {
		t.Errorf("%d endpoints, want 4", made.Load())
	}
	ask := func(who, tenant, network, container string, code int, part string) {
		t.Helper()
		b.want(who, "POST", mastercfg.CreateEndpointPath, endpointOf(tenant, network, container), code, part)
	}
	ask("proven:node/h1", "blue", "web", "more", 500, full)
	ask("proven:root", "blue", "web", "roots", 200, "10.7.")
	ask("proven:node/h1", "blue", "web", "roots", 200, "10.7.") // it is there
	ask("proven:node/h1", "blue", "access", "h2", 200, "10.10.")
	ask("proven:node/h1", "red", "web", "c", 200, "10.8.")
	ask("proven:root", "blue", "web", "two", 200, "10.7.")
	for _, container := range []string{"roots", "two"} { // down to four again
		b.want("proven:node/h1", "POST", mastercfg.DeleteEndpointPath, fmt.Sprintf(`{"TenantName":"blue","NetworkName":"web","EndpointID":%q}`, container), 200, "")
		ask("proven:node/h1", "blue", "web", "more", 500, full)
	}
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","maxEndpoints":5}`, 200, "")
	ask("proven:node/h1", "blue", "web", "more", 200, "10.7.")
	ask("proven:node/h1", "blue", "none", "c", 500, "key not found: network none of tenant blue")
	b.want("proven:root", "POST", "tenants/default", `{"tenantName":"default","maxEndpoints":1}`, 200, "")
	b.mode(mastercfg.SecurityPermissive)
	ask("proven:node/h1", "blue", "web", "noted", 200, "10.7.")
}

// Addresses without endpoints are bounded as well: agents get them, and they are not returned.
func TestOfANetworkNodesHoldAsManyAddressesAsItsTenantMayHaveEndpoints(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","maxEndpoints":2}`, 200, "")
	alloc := func(who string, code int, part string) {
		t.Helper()
		b.want(who, "POST", mastercfg.AllocAddressPath, `{"NetworkID":"web.blue"}`, code, part)
	}
	alloc("proven:node/h1", 200, "10.7.0.1")
	alloc("proven:node/h1", 200, "10.7.0.2")
	alloc("proven:node/h1", 500, "2 addresses of network web.blue are handed out without an endpoint")
	b.want("proven:node/h1", "POST", mastercfg.ReleaseAddressPath, `{"NetworkID":"web.blue","IPv4Address":"10.7.0.2"}`, 200, "")
	alloc("proven:node/h1", 200, "10.7.0.2")
	alloc("proven:root", 200, "10.7.0.3")
}

// A tenant without a limit of its own has 4096, except for tenant default, which has all pods of a plain cluster.
func TestEndpointsWithoutAnotherWord(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	b.want("proven:root", "POST", "tenants/default", `{"tenantName":"default"}`, 200, "")
	b.want("proven:root", "POST", "networks/default:web", `{"tenantName":"default","networkName":"web","encap":"vxlan","subnet":"10.64.0.0/16"}`, 200, "")
	for _, tenant := range []string{"default", "blue"} {
		for from := 0; from < 4096; from += 512 {
			b.plan(func(tx *ledger.Tx) error {
				for i := from; i < from+512; i++ {
					id := fmt.Sprintf("web.%s-%d", tenant, i)
					if err := ledger.Write(tx, mastercfg.EndpointPrefix+id, mastercfg.CfgEndpointState{ID: id, NetID: "web." + tenant}); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	prepare := func() {
		t.Helper()
		if err := master.NewReconciler(b.ledger, testkit.Quiet()).Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	prepare()
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, endpointOf("blue", "web", "more"), 500, "tenant blue may have 4096, and has them")
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, endpointOf("default", "web", "more"), 200, "10.64.")
	b.want("proven:root", "POST", "tenants/default", `{"tenantName":"default","maxEndpoints":4097}`, 200, "")
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, endpointOf("default", "web", "another"), 500, "tenant default may have 4097, and has them")

	// More than that come from a netmaster without limits.
	b.want("proven:root", "POST", mastercfg.CreateEndpointPath, endpointOf("blue", "web", "more"), 200, "")
	prepare()
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath, endpointOf("blue", "web", "another"), 200, "")
	b.want("proven:root", "GET", "tenants/blue", "", 200, `"maxEndpoints":8194`)
}

// The pod's event has the reason, as if there were no address.
func TestAPodOfAFullTenantIsToldOf(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	b.want("proven:root", "POST", "tenants/blue", `{"tenantName":"blue","maxEndpoints":1}`, 200, "")
	b.endpointAs("proven:node/h1", "blue", "one")
	var told []PodAddress
	b.api.TellAddresses(func(p PodAddress) { told = append(told, p) })
	const lack = "pod shop/two gets no address in network web of tenant blue: no endpoint is left: tenant blue may have 1, and has them: " +
		"an operator can change its maxEndpoints; it gets one when another endpoint of the tenant goes"
	b.want("proven:node/h1", "POST", mastercfg.CreateEndpointPath,
		`{"TenantName":"blue","NetworkName":"web","EPCommonName":"two","PodNamespace":"shop","PodUID":"u2","ConfigEP":{"Container":"c2","Host":"h1"}}`, 500, "TenantFull: "+lack)
	if diff := cmp.Diff([]PodAddress{{"shop", "two", "u2", "h1", "TenantFull", lack}}, told); diff != "" {
		t.Error(diff)
	}
}
