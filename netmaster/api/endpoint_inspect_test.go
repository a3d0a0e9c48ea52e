package api

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func TestEndpointsAreFoundByNameThenPrefixThenPart(t *testing.T) {
	b := withGroup(t)
	for _, c := range []string{"abc", "abcd", "xbcz"} {
		b.endpoint("blue", "web", "front", c)
	}
	if _, _, err := b.db.Txn(t.Context(), putTxn(mastercfg.OperEndpointPrefix+"web.blue-abc", `{"portName":"vport3"}`)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"abc": "abc", "abcd": "abcd", "xb": "xbcz", "cz": "xbcz", "web.blue-abcd": "abcd"} {
		var got contivmodel.EndpointInspect
		if err := json.Unmarshal([]byte(b.ok("GET", "inspect/endpoints/"+text, "")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Oper.EndpointID != want || got.Oper.Key != text {
			t.Errorf("%s: %+v", text, got.Oper)
		}
		if want == "abc" && got.Oper.VirtualPort != "vvport3" {
			t.Errorf("virtual port %q", got.Oper.VirtualPort)
		}
	}
	b.refused("GET", "inspect/endpoints/bc", "", "endpoint bc is ambiguous, 3 endpoints match", 409, "conflict")
	b.refused("GET", "inspect/endpoints/none", "", "endpoint not found", 404, "not-found")
}

// networkReads counts the reads of networks.
type networkReads struct {
	ledger.Reader
	n int
}

func (c *networkReads) Get(key string) ([]byte, bool) {
	if strings.HasPrefix(key, mastercfg.NetworkPrefix) {
		c.n++
	}
	return c.Reader.Get(key)
}

func TestALookUpReadsNoMoreNetworksThanItsRightsNeed(t *testing.T) {
	b := withGroup(t)
	for _, c := range []string{"abc", "abcd", "xbcz"} {
		b.endpoint("blue", "web", "front", c)
	}
	b.mode(mastercfg.SecurityEnforced)
	r, err := b.api.entrance.Enter(httptest.NewRequest("GET", "/", nil).WithContext(identity.With(t.Context(), identity.Identity{Kind: identity.Root})))
	if err != nil {
		t.Fatal(err)
	}
	root := auth.CallerFrom(r.Context())
	b.plan(func(tx *ledger.Tx) error {
		for name, caller := range map[string]*auth.Caller{"of an open cluster": nil, "by root": root} {
			counted := &networkReads{Reader: tx}
			sees, err := seesNetworks(caller, counted)
			if err != nil {
				return err
			}
			if ep, err := lookupEndpoint(counted, sees, "abc"); err != nil || ep.EndpointID != "abc" || counted.n > 0 {
				t.Errorf("%s: %s, %v, %d networks read", name, ep.EndpointID, err, counted.n)
			}
		}
		asked := 0
		if ep, err := lookupEndpoint(tx, func(string) bool { asked++; return true }, "abc"); err != nil || ep.EndpointID != "abc" || asked != 2 {
			t.Errorf("%s, %v: asked %d times for two endpoints", ep.EndpointID, err, asked)
		}
		return nil
	})
}

func TestPodsAreFoundByNamespaceAndName(t *testing.T) {
	b := withGroup(t)
	for id, namespace := range map[string]string{"c1": "shop", "c2": "bank", "c3": ""} {
		plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
			TenantName: "blue", NetworkName: "web", EPCommonName: "web-0", PodNamespace: namespace, ConfigEP: mastercfg.ConfigEP{Container: id, Host: "h1"},
		})
	}
	var got contivmodel.EndpointInspect
	if err := json.Unmarshal([]byte(b.ok("GET", "inspect/endpoints/bank:web-0", "")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Oper.EndpointID != "c2" || got.Oper.PodNamespace != "bank" || got.Oper.ContainerName != "web-0" {
		t.Errorf("%+v", got.Oper)
	}
	b.refused("GET", "inspect/endpoints/web-0", "", "endpoint web-0 is ambiguous, 3 endpoints match", 409, "conflict")
	b.refused("GET", "inspect/endpoints/shop:web-1", "", "endpoint not found", 404, "not-found")
}

func TestOfTwoPodsWithOneNameTheOneThatKubernetesHasIsMeant(t *testing.T) {
	b := withGroup(t)
	create := func(id, host, uid string) {
		b.plan(func(tx *ledger.Tx) error {
			return ledger.Write(tx, mastercfg.K8sPodKey(host, uid), mastercfg.K8sPod{Namespace: "shop", Name: "db-0", UID: uid, Tenant: "blue", Network: "web"})
		})
		plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
			TenantName: "blue", NetworkName: "web", EPCommonName: "db-0", PodNamespace: "shop", PodUID: uid,
			ConfigEP: mastercfg.ConfigEP{Container: id, Host: host},
		})
	}
	gone := func(host, uid string) {
		b.plan(func(tx *ledger.Tx) error { tx.Delete(mastercfg.K8sPodKey(host, uid)); return nil })
	}
	create("c1", "h1", "u1")
	create("c2", "h2", "u2")
	_, answer, _ := b.do("GET", "inspect/endpoints/shop:db-0", "", "Accept", fault.ProblemType)
	var said fault.Problem
	if err := json.Unmarshal([]byte(answer), &said); err != nil {
		t.Fatal(err)
	}
	b.same("details", said.Details, []string{
		"endpoint web.blue-c1 on node h1, addresses 10.7.0.1, 2001:db8::2", "endpoint web.blue-c2 on node h2, addresses 10.7.0.2, 2001:db8::3",
	})
	gone("h1", "u1") // deleted by force while its node is away
	for _, text := range []string{"shop:db-0", "db-0"} {
		var got contivmodel.EndpointInspect
		if err := json.Unmarshal([]byte(b.ok("GET", "inspect/endpoints/"+text, "")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Oper.EndpointID != "c2" {
			t.Errorf("%s: %s of node %s", text, got.Oper.EndpointID, got.Oper.HomingHost)
		}
	}
	gone("h2", "u2")
	b.refused("GET", "inspect/endpoints/shop:db-0", "", "endpoint shop:db-0 is ambiguous, 2 endpoints match", 409, "conflict")
}

func TestInspectShowsWhatIs(t *testing.T) {
	b := withGroup(t)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:pool", `{"tenantName":"blue","groupName":"pool","networkName":"web","ipPool":"10.7.0.50-10.7.0.52","policies":["p"]}`)
	b.endpoint("blue", "web", "pool", "c1")
	b.endpoint("blue", "web", "", "c2")
	for path, want := range map[string]string{
		"networks/blue:web": `{"allocatedAddressesCount":4,"allocatedIPAddresses":"10.7.0.1, 10.7.0.50-10.7.0.52, 10.7.0.254",` +
			`"availableIPAddresses":"10.7.0.2-10.7.0.49, 10.7.0.53-10.7.0.253","externalPktTag":1,"networkTag":"web.blue","numEndpoints":2,"pktTag":1}`,
		"endpointGroups/blue:pool": `{"allocatedIPAddresses":"10.7.0.50","availableIPAddresses":"10.7.0.51-10.7.0.52","externalPktTag":1,` +
			`"groupTag":"pool.blue","numEndpoints":1,"pktTag":1}`,
		"policys/blue:p": `{"numEndpoints":1}`,
		"tenants/blue":   `{"totalEPGs":2,"totalEndpoints":2,"totalNetworks":1,"totalPolicies":1}`,
		"globals/global": `{"clusterMode":"cni","numNetworks":1,"vxlansInUse":"1"}`,
	} {
		var got struct {
			Config map[string]any
			Oper   map[string]any
		}
		if err := json.Unmarshal([]byte(b.ok("GET", "inspect/"+path, "")), &got); err != nil {
			t.Fatal(err)
		}
		for _, list := range []string{"endpoints", "networks", "endpointGroups"} {
			delete(got.Oper, list)
		}
		oper, err := json.Marshal(got.Oper)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(oper)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}
