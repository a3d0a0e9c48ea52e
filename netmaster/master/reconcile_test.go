package master_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// post sends a request that must succeed.
func (w *world) post(path, body string) {
	w.Helper()
	w.request("POST", path, body)
}

func (w *world) request(method, path, body string) {
	w.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/" + path + "/"
	}
	answer := httptest.NewRecorder()
	w.api.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
	if answer.Code != http.StatusOK {
		w.Fatalf("%s %s %s: %d %s", method, path, body, answer.Code, answer.Body)
	}
}

func (w *world) endpoint(group, container string) {
	w.Helper()
	w.post(mastercfg.CreateEndpointPath,
		`{"TenantName":"default","NetworkName":"web","ConfigEP":{"Host":"h1","Container":"`+container+`","ServiceName":"`+group+`"}}`)
}

// populated has a bit of everything.
func populated(t testing.TB) *world {
	w := newWorld(t)
	w.post("networks/default:web", `{"tenantName":"default","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24","gateway":"10.7.0.254","ipv6Subnet":"2001:db8::/64"}`)
	w.post("networks/default:lan", `{"tenantName":"default","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24"}`)
	w.post("policys/default:p", `{"tenantName":"default","policyName":"p"}`)
	w.post("endpointGroups/default:front", `{"tenantName":"default","groupName":"front","networkName":"web","policies":["p"],"ipPool":"10.7.0.50-10.7.0.59"}`)
	w.post("endpointGroups/default:back", `{"tenantName":"default","groupName":"back","networkName":"web"}`)
	w.post("rules/default:p:1", `{"tenantName":"default","policyName":"p","ruleId":"1","direction":"in","action":"allow","protocol":"tcp","port":80,"fromEndpointGroup":"back"}`)
	w.endpoint("front", "c1")
	w.endpoint("back", "c2")
	w.endpoint("", "c3")
	w.post("netprofiles/default:gold", `{"tenantName":"default","profileName":"gold","bandwidth":"10 Mbps","DSCP":10,"burst":100}`)
	w.post("endpointGroups/default:back", `{"tenantName":"default","groupName":"back","networkName":"web","netProfile":"gold"}`)
	w.post("Bgps/h1", `{"hostname":"h1","routerip":"50.1.1.1/24","as":"65002"}`)
	w.post(mastercfg.UpdateEndpointPath, `{"Event":"start","Tenant":"default","Network":"web","EndpointID":"c3","ContainerID":"k3","Labels":{"app":"web"}}`)
	w.post("serviceLBs/default:lb", `{"tenantName":"default","serviceName":"lb","networkName":"web","selectors":["app=web"],"ports":["80:8080:TCP"],"ipAddress":"10.7.0.9"}`)
	return w
}

func TestASoundStateIsLeftAlone(t *testing.T) {
	w := populated(t)
	before := storetest.Dump(t, w.db)
	rc := master.NewReconciler(w.ledger, w.entry)
	for range 2 {
		if got := w.reconcile(rc); got != nil {
			t.Errorf("repaired %q", got)
		}
	}
	if diff := cmp.Diff(before, storetest.Dump(t, w.db)); diff != "" {
		t.Error(diff)
	}
}

// edit changes one member of a stored record.
func (w *world) edit(key, member string, value any) {
	w.Helper()
	kv, err := w.db.Get(w.Context(), key)
	if err != nil {
		w.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(kv.Value, &record); err != nil {
		w.Fatal(err)
	}
	record[member] = value
	text, err := json.Marshal(record)
	if err != nil {
		w.Fatal(err)
	}
	w.damage(key, string(text))
}

func TestDamageIsRepairedToWhatItWas(t *testing.T) {
	const net, epg = mastercfg.NetworkPrefix + "web.default", mastercfg.EndpointGroupPrefix + "front:default"
	for name, damage := range map[string]func(*world){
		"counters of a network": func(w *world) { w.edit(net, "epCount", 7); w.edit(net, "epAddrCount", -3) },
		"counter of a group":    func(w *world) { w.edit(epg, "epCount", 3) },
		"group with a range":    func(w *world) { w.damage(epg, "") },
		"modes":                 func(w *world) { w.damage(mastercfg.GlobalConfigKey, "") },
		"changed mode":          func(w *world) { w.edit(mastercfg.GlobalConfigKey, "fwd-mode", "bridge") },
		"ranges":                func(w *world) { w.damage(mastercfg.GlobalStateKey, "") },
		"corrupt ranges":        func(w *world) { w.damage(mastercfg.GlobalOperKey, "{") },
		"vlan pool":             func(w *world) { w.damage(mastercfg.VLANConfigKey, "") },
		"vxlan pool":            func(w *world) { w.damage(mastercfg.VXLANConfigKey, "") },
		"corrupt vxlan pool":    func(w *world) { w.damage(mastercfg.VXLANConfigKey, "{") },
		"address held and in use": func(w *world) {
			w.damage(mastercfg.HeldKey("web.default", "10.7.0.1"), `{}`)
		},
		"address held of nothing": func(w *world) { w.damage(mastercfg.HeldKey("x.default", "10.7.0.1"), `{}`) },
		"routing domain":          func(w *world) { w.damage(mastercfg.VRFPrefix+"default", "") },
		"mode of rules":           func(w *world) { w.edit(mastercfg.VRFPrefix+"default", "policyMode", "final") },
		"binding":                 func(w *world) { w.damage(mastercfg.PolicyPrefix+"default:front:default:p", "") },
		"missing rule":            func(w *world) { w.damage(mastercfg.PolicyRulePrefix+"default:front:default:p:default:p:1:inRx", "") },
		"changed rule": func(w *world) {
			w.edit(mastercfg.PolicyRulePrefix+"default:front:default:p:default:p:1:inRx", "DstPort", 81)
		},
		"rule of nobody": func(w *world) {
			w.damage(mastercfg.PolicyRulePrefix+"default:x:default:p:default:p:1:inRx", `{"RuleId":"x"}`)
		},
		"corrupt rule of nobody": func(w *world) { w.damage(mastercfg.PolicyRulePrefix+"x", `{`) },
		"binding of nobody": func(w *world) {
			w.damage(mastercfg.PolicyPrefix+"default:x:default:p", `{"EpgPolicyKey":"default:x:default:p"}`)
		},
		"network of nobody": func(w *world) {
			w.damage(mastercfg.NetworkPrefix+"x.default", `{"id":"x.default","tenant":"default","networkName":"x","pktTagType":"vlan"}`)
		},
		"group of nobody": func(w *world) {
			w.damage(mastercfg.EndpointGroupPrefix+"x:default", `{"id":"x:default","tenantName":"default","groupName":"x"}`)
		},
		"all groups":                func(w *world) { w.damage(epg, ""); w.damage(mastercfg.EndpointGroupPrefix+"back:default", "") },
		"limits of a group":         func(w *world) { w.edit(mastercfg.EndpointGroupPrefix+"back:default", "Bandwidth", "1g") },
		"limits of a group without": func(w *world) { w.edit(epg, "Burst", 7) },
		"bgp":                       func(w *world) { w.damage(mastercfg.BgpPrefix+"h1", "") },
		"changed bgp":               func(w *world) { w.edit(mastercfg.BgpPrefix+"h1", "as", "1") },
		"bgp of nobody":             func(w *world) { w.damage(mastercfg.BgpPrefix+"h2", `{"id":"h2"}`) },
		"service":                   func(w *world) { w.damage(mastercfg.ServiceLBPrefix+"lb:default", "") },
		"changed service":           func(w *world) { w.edit(mastercfg.ServiceLBPrefix+"lb:default", "ports", []string{}) },
		"selectors of a service":    func(w *world) { w.edit(mastercfg.ServiceLBPrefix+"lb:default", "selectors", nil) },
		"provider too few":          func(w *world) { w.damage(mastercfg.ProviderKey("lb:default", "10.7.0.2"), "") },
		"provider too many": func(w *world) {
			w.damage(mastercfg.ProviderKey("lb:default", "10.7.0.7"), `{}`)
		},
		"providers in a list": func(w *world) { w.damage(mastercfg.ProviderPrefix+"lb:default", `{"id":"lb:default"}`) },
		"providers of nobody": func(w *world) { w.damage(mastercfg.ProviderPrefix+"x:default", `{"id":"x:default"}`) },
		"service of nobody": func(w *world) {
			w.damage(mastercfg.ServiceLBPrefix+"x:default", `{"id":"x:default","tenantname":"default","subnet":"web"}`)
		},
		"domain of nobody": func(w *world) { w.damage(mastercfg.VRFPrefix+"x", `{"id":"x","vrf":9}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := populated(t)
			before := storetest.Dump(t, w.db)
			damage(w)
			if cmp.Equal(before, storetest.Dump(t, w.db)) {
				t.Fatal("nothing was damaged")
			}
			rc := master.NewReconciler(w.ledger, w.entry)
			if got := w.reconcile(rc); len(got) == 0 {
				t.Error("a repair was not reported")
			}
			if diff := cmp.Diff(before, storetest.Dump(t, w.db)); diff != "" {
				t.Error(diff)
			}
			if got := w.reconcile(rc); got != nil {
				t.Errorf("second run repaired %q", got)
			}
		})
	}
}

func TestMissingRecordsAreMadeFromIntent(t *testing.T) {
	w := populated(t)
	w.damage(mastercfg.NetworkPrefix+"web.default", "")
	w.damage(mastercfg.EndpointGroupPrefix+"back:default", "")
	w.reconcile(master.NewReconciler(w.ledger, w.entry))
	var net mastercfg.CfgNetworkState
	var group mastercfg.EndpointGroupState
	w.update(func(tx *ledger.Tx) (err error) {
		if net, err = master.GetNetwork(tx, "web.default"); err == nil {
			group, err = master.GetGroup(tx, "back:default")
		}
		return err
	})
	// The endpoints and the service are in it again, so that their addresses cannot be assigned twice.
	if net.Gateway != "10.7.0.254" || group.EndpointGroupID == 0 {
		t.Errorf("made %+v and %+v", net, group)
	}
	w.endpoint("", "c4")
	kv, err := w.db.Get(t.Context(), mastercfg.EndpointPrefix+"web.default-c4")
	if err != nil || !strings.Contains(string(kv.Value), `"ipAddress":"10.7.0.3"`) {
		t.Errorf("the next endpoint is %s, %v", kv.Value, err)
	}
}

// All of it but the endpoints follows from the objects, the endpoints and each other.
func TestEachRecordThatIsLostIsMadeAgain(t *testing.T) {
	w := populated(t)
	before := storetest.Dump(t, w.db)
	rc := master.NewReconciler(w.ledger, w.entry)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		derived := strings.HasPrefix(key, mastercfg.StateRoot) || strings.HasPrefix(key, mastercfg.GlobalRoot) || key == mastercfg.GlobalOperKey
		if !derived || strings.HasPrefix(key, mastercfg.EndpointPrefix) {
			continue
		}
		w.damage(key, "")
		w.reconcile(rc)
		if diff := cmp.Diff(before, storetest.Dump(t, w.db)); diff != "" {
			t.Fatalf("without %s: %s", key, diff)
		}
	}
}

// Numbers below those of the lost records are free, so that the lowest free ones are others. Rules must be in force all
// the time, and nodes outside have the VLAN of the network.
func TestLostRecordsGetTheirNumbersAgain(t *testing.T) {
	const late, out = mastercfg.EndpointGroupPrefix + "late:default", mastercfg.NetworkPrefix + "out.default"
	for name, network := range map[string]string{
		"vlan": `"encap":"vlan"`, "requested vlan": `"encap":"vlan","pktTag":77`, "vxlan": `"encap":"vxlan"`, "requested vxlan": `"encap":"vxlan","pktTag":77`,
	} {
		for _, lost := range [][]string{{late}, {out}, {late, out}} {
			w := populated(t)
			w.post("networks/default:early", `{"tenantName":"default","networkName":"early","encap":"vxlan","subnet":"10.9.1.0/24"}`)
			w.post("networks/default:early1", `{"tenantName":"default","networkName":"early1","encap":"vlan","subnet":"10.9.2.0/24"}`)
			w.post("endpointGroups/default:early2", `{"tenantName":"default","groupName":"early2","networkName":"web"}`)
			w.post("networks/default:out", `{"tenantName":"default","networkName":"out","subnet":"10.9.3.0/24",`+network+`}`)
			w.post("endpointGroups/default:other", `{"tenantName":"default","groupName":"other","networkName":"out"}`)
			w.post("endpointGroups/default:late", `{"tenantName":"default","groupName":"late","networkName":"out","policies":["p"],"netProfile":"gold","cfgdTag":"t"}`)
			w.post(mastercfg.CreateEndpointPath, `{"TenantName":"default","NetworkName":"out","ConfigEP":{"Host":"h1","Container":"c9","ServiceName":"late"}}`)
			for _, early := range []string{"networks/default:early", "networks/default:early1", "endpointGroups/default:early2"} {
				w.request("DELETE", early, "")
			}
			before := storetest.Dump(t, w.db)
			for _, key := range lost {
				w.damage(key, "")
			}
			w.reconcile(master.NewReconciler(w.ledger, w.entry))
			if diff := cmp.Diff(before, storetest.Dump(t, w.db)); diff != "" {
				t.Errorf("%s, lost %v: %s", name, lost, diff)
			}
		}
	}
}

// While a record is lost, others may get its numbers. Then its endpoints and rules get the new ones.
func TestALostGroupWhoseIDAnotherGroupHasGetsAnotherOne(t *testing.T) {
	w := populated(t)
	w.damage(mastercfg.EndpointGroupPrefix+"front:default", "")
	w.post("endpointGroups/default:thief", `{"tenantName":"default","groupName":"thief","networkName":"web"}`)
	w.reconcile(master.NewReconciler(w.ledger, w.entry))
	thief := read[mastercfg.EndpointGroupState](w, mastercfg.EndpointGroupPrefix+"thief:default")
	front := read[mastercfg.EndpointGroupState](w, mastercfg.EndpointGroupPrefix+"front:default")
	ep := read[mastercfg.CfgEndpointState](w, mastercfg.EndpointPrefix+"web.default-c1")
	binding := read[mastercfg.EpgPolicy](w, mastercfg.PolicyPrefix+"default:front:default:p")
	rule := read[mastercfg.CfgPolicyRule](w, mastercfg.PolicyRulePrefix+"default:front:default:p:default:p:1:inRx")
	ids := []int{front.EndpointGroupID, ep.EndpointGroupID, binding.EndpointGroupID, rule.DstEndpointGroup}
	if thief.EndpointGroupID != 1 || !cmp.Equal(ids, []int{3, 3, 3, 3}) {
		t.Errorf("the other group has id %d; group, endpoint, binding and rule have %v", thief.EndpointGroupID, ids)
	}
}

// The id of a group whose object is gone becomes that of another one, whose policies are not about its endpoints.
func TestEndpointsOfAGroupThatIsGoneAreInNone(t *testing.T) {
	w := populated(t)
	w.damage(mastercfg.ModelKey("endpointGroup", "default:back"), "")
	rc := master.NewReconciler(w.ledger, w.entry)
	w.reconcile(rc)
	w.post("endpointGroups/default:next", `{"tenantName":"default","groupName":"next","networkName":"web"}`)
	next := read[mastercfg.EndpointGroupState](w, mastercfg.EndpointGroupPrefix+"next:default")
	ep := read[mastercfg.CfgEndpointState](w, mastercfg.EndpointPrefix+"web.default-c2")
	if next.EndpointGroupID != 2 || ep.EndpointGroupID != 0 || ep.EndpointGroupKey != "" || ep.IPAddress == "" {
		t.Errorf("group %d, endpoint %+v", next.EndpointGroupID, ep)
	}
	if got := w.reconcile(rc); got != nil {
		t.Errorf("second run repaired %q", got)
	}
}

func TestTwoGroupsWithOneIDAreToldApart(t *testing.T) {
	w := populated(t)
	w.edit(mastercfg.EndpointGroupPrefix+"back:default", "endpointGroupId", 1)
	w.reconcile(master.NewReconciler(w.ledger, w.entry))
	ids := map[int]string{}
	for _, group := range []string{"front", "back"} {
		rec := read[mastercfg.EndpointGroupState](w, mastercfg.EndpointGroupPrefix+group+":default")
		if ids[rec.EndpointGroupID] != "" {
			t.Errorf("%s and %s have id %d", group, ids[rec.EndpointGroupID], rec.EndpointGroupID)
		}
		ids[rec.EndpointGroupID] = group
		if group != "back" {
			continue
		}
		if ep := read[mastercfg.CfgEndpointState](w, mastercfg.EndpointPrefix+"web.default-c2"); ep.EndpointGroupID != rec.EndpointGroupID {
			t.Errorf("endpoint has id %d, its group %d", ep.EndpointGroupID, rec.EndpointGroupID)
		}
		rule := read[mastercfg.CfgPolicyRule](w, mastercfg.PolicyRulePrefix+"default:front:default:p:default:p:1:inRx")
		if rule.SrcEndpointGroup != rec.EndpointGroupID {
			t.Errorf("rule names id %d, its peer has %d", rule.SrcEndpointGroup, rec.EndpointGroupID)
		}
	}
}

func read[T any](w *world, key string) T {
	w.Helper()
	var v T
	w.update(func(tx *ledger.Tx) (err error) {
		v, err = ledger.Read[T](tx, key)
		return err
	})
	return v
}

func TestAnAddressWithoutAnOwnerIsFreedInTheSecondRun(t *testing.T) {
	w := populated(t)
	before := storetest.Dump(t, w.db)
	w.post(mastercfg.AllocAddressPath, `{"NetworkID":"web.default"}`)
	rc := master.NewReconciler(w.ledger, w.entry)
	if got := w.reconcile(rc); got != nil {
		t.Errorf("first run repaired %q", got)
	}
	if diff := cmp.Diff([]string{"repaired: network web.default: address 10.7.0.3 had no owner"}, w.reconcile(rc)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, storetest.Dump(t, w.db)); diff != "" {
		t.Error(diff)
	}
}

func TestAnAddressThatIsHandedOutAgainBetweenTwoRunsIsHeld(t *testing.T) {
	w := populated(t)
	alloc := func() {
		t.Helper()
		w.post(mastercfg.AllocAddressPath, `{"NetworkID":"web.default","PreferredIPv4Address":"10.7.0.5"}`)
	}
	alloc()
	rc := master.NewReconciler(w.ledger, w.entry)
	w.reconcile(rc)
	const endpoint = `{"TenantName":"default","NetworkName":"web","EndpointID":"c4","ConfigEP":{"Host":"h1","Container":"c4","IPAddress":"10.7.0.5"}}`
	w.post(mastercfg.CreateEndpointPath, endpoint)
	w.post(mastercfg.DeleteEndpointPath, endpoint)
	alloc()
	held := mastercfg.HeldKey("web.default", "10.7.0.5")
	for run, want := range []bool{true, false} {
		got := w.reconcile(rc)
		if _, is := storetest.Dump(t, w.db)[held]; is != want {
			t.Errorf("after run %d since it was handed out: held %v, repaired %q", run+1, is, got)
		}
	}
}

func TestValuesNobodyCanReadAreLeftAlone(t *testing.T) {
	w := populated(t)
	w.damage(mastercfg.NetworkPrefix+"lan.default", `{"id":`)
	w.damage(mastercfg.EndpointPrefix+"x", `[1]`)
	w.damage(mastercfg.ModelKey("rule", "default:p:9"), `"`)
	w.post("rules/default:p:2", `{"tenantName":"default","policyName":"p","ruleId":"2","direction":"out","action":"deny","priority":100}`)
	w.damage(mastercfg.ModelKey("rule", "default:p:2"), `{"action":`) // agents go on to deny
	before := storetest.Dump(t, w.db)
	w.reconcile(master.NewReconciler(w.ledger, w.entry))
	after := storetest.Dump(t, w.db)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// A group has lost the binding of its policy, one of whose rules cannot be read: it gets the others back.
func TestALostBindingIsMadeWithTheRulesThatCanBeRead(t *testing.T) {
	w := populated(t)
	const binding = mastercfg.PolicyPrefix + "default:front:default:p"
	w.damage(mastercfg.ModelKey("rule", "default:p:1"), "{")
	w.damage(binding, "")
	w.reconcile(master.NewReconciler(w.ledger, w.entry))
	if _, there := storetest.Dump(t, w.db)[binding]; !there {
		t.Errorf("there is no %s", binding)
	}
}
