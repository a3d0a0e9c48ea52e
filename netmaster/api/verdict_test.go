package api

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// The answer names what decides about a connection between two pods: groups, then Kubernetes policies, of the
// source and of the destination.
func TestItIsToldWhoDecidesAboutAConnection(t *testing.T) {
	b := withGroup(t)
	for name, uid := range map[string]string{"web": "u1", "db": "u2"} {
		plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
			TenantName: "blue", NetworkName: "web", EPCommonName: name, PodNamespace: "shop", PodUID: uid, ConfigEP: mastercfg.ConfigEP{Container: "c" + name, Host: "h1", ServiceName: "front"},
		})
	}
	write := func(records map[string]any) {
		t.Helper()
		if _, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
			for key, record := range records {
				if err := ledger.Write(tx, key, record); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(when, query, want string) {
		t.Helper()
		var got contivmodel.Verdicts
		if err := json.Unmarshal([]byte(b.ok("GET", verdictPath+"?from=shop:web&to=shop:db&"+query, "")), &got); err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, v := range got.Verdicts {
			words = append(words, fmt.Sprint(v.Allowed))
			for _, j := range v.Judged {
				words = append(words, strings.TrimSpace(fmt.Sprintf("%s %v %s %s", j.Of, j.Allowed, j.Tier, j.Rule)))
			}
		}
		want += "; " + want // over both versions of IP
		if text := strings.Join(words, "; "); text != want {
			t.Errorf("%s, %s: %s; want %s", when, query, text, want)
		}
	}
	tcp := "protocol=tcp&port=80"
	says("pods of whom nothing is known are isolated", tcp, "false; packets true none; egress false pod not known")
	pod := func(name, uid string, class uint16) map[string]any {
		return map[string]any{mastercfg.K8sPodKey("h1", uid): mastercfg.K8sPod{Namespace: "shop", Name: name, UID: uid, Class: class, Classed: true}}
	}
	write(pod("web", "u1", 0))
	write(pod("db", "u2", 7))
	write(map[string]any{mastercfg.K8sClassKey(7): mastercfg.K8sClass{JudgesIn: true, IsolatesIn: true},
		mastercfg.K8sPolicyPrefix + "networkpolicy/shop/db": mastercfg.K8sPolicy{Rules: []mastercfg.TierRule{{Tier: 1, Verdict: "accept", Subjects: []uint16{7}, AnyPeer: true, Ports: []mastercfg.TierPorts{{Protocol: 6, First: 80, Last: 81}}}}}})
	says("a policy allows a port", tcp, "true; packets true none; egress true none; ingress true NetworkPolicy networkpolicy/shop/db")
	says("and no other", "protocol=tcp&port=82", "false; packets true none; egress true none; ingress false NetworkPolicy")
	anyPod := mastercfg.TierRule{Verdict: "deny", Subjects: []uint16{7}, AnyPeer: true, AnyPod: true}
	write(map[string]any{mastercfg.K8sPolicyPrefix + "clusternetworkpolicy/pods": mastercfg.K8sPolicy{Rules: []mastercfg.TierRule{anyPod}}})
	says("a rule about any pod is not about one that no policy selects", tcp, "true; packets true none; egress true none; ingress true NetworkPolicy networkpolicy/shop/db")
	write(map[string]any{mastercfg.K8sClassKey(3): mastercfg.K8sClass{}})
	write(pod("web", "u1", 3))
	says("and about all others", tcp, "false; packets true none; egress true none; ingress false ClusterNetworkPolicy, Admin clusternetworkpolicy/pods")
	write(pod("web", "u1", 0))
	for host, allowed := range map[string]bool{"h1": true, "h2": false} { // h1 is the pod's node
		plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
			TenantName: "blue", NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Container: host, Host: host},
		})
		var got contivmodel.Verdicts
		if err := json.Unmarshal([]byte(b.ok("GET", verdictPath+"?from=web.blue-"+host+"&to=shop:db&protocol=tcp&port=82", "")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Verdicts[0].Allowed != allowed {
			t.Errorf("from node %s: %+v, want %v", host, got.Verdicts[0], allowed)
		}
	}
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","protocol":"tcp","port":80,"action":"deny","priority":1}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`)
	var got contivmodel.Verdicts
	if err := json.Unmarshal([]byte(b.ok("GET", verdictPath+"?from=shop:web&to=shop:db&"+tcp, "")), &got); err != nil {
		t.Fatal(err)
	}
	if v := got.Verdicts[0]; v.Allowed || len(v.Judged) != 1 || v.Judged[0].Tier != "groups" || v.Judged[0].Rule == "" {
		t.Errorf("a rule of the group denies: %+v", v)
	}
	allows := `{"tenantName":"blue","policyName":"p","ruleId":"2","direction":"in","protocol":"tcp","port":80,"action":"allow","priority":2}`
	b.ok("POST", "rules/blue:p:2", allows)
	const rule = "blue:front:blue:p:blue:p:2:inRx"
	deny := map[string]any{mastercfg.K8sPolicyPrefix + "clusternetworkpolicy/pods": mastercfg.K8sPolicy{Rules: []mastercfg.TierRule{{Verdict: "deny", Subjects: []uint16{7}, AnyPeer: true}}}}
	write(deny)
	says("a rule of the group allows, the first tier denies", tcp, "false; packets true groups "+rule+"; egress true none; ingress false ClusterNetworkPolicy, Admin clusternetworkpolicy/pods")
	b.ok("POST", "tenants/blue", `{"tenantName":"blue","policyMode":"final"}`)
	says("and is final", tcp, "true; packets true groups "+rule+"; egress true none; ingress true groups, final "+rule)
	says("for its port", "protocol=tcp&port=82", "false; packets true none; egress true none; ingress false ClusterNetworkPolicy, Admin clusternetworkpolicy/pods")
	// The name of a network may have dots.
	b.ok("POST", "networks/blue:web.v2", `{"tenantName":"blue","networkName":"web.v2","encap":"vxlan","subnet":"10.6.0.0/24","gateway":"10.6.0.254"}`)
	plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
		TenantName: "blue", NetworkName: "web.v2", EPCommonName: "dotted", PodNamespace: "shop", PodUID: "u3", ConfigEP: mastercfg.ConfigEP{Container: "cdotted", Host: "h1"},
	})
	if err := json.Unmarshal([]byte(b.ok("GET", verdictPath+"?from=shop:dotted&to=shop:db&"+tcp, "")), &got); err != nil {
		t.Fatal(err)
	}
	if v := got.Verdicts[0]; v.Judged[0].Tier == "tenants" {
		t.Errorf("two networks of a tenant: %+v", v)
	}
	b.refused("GET", verdictPath+"?from=shop:web&to=shop:none&"+tcp, "", "endpoint not found", 404, "not-found")
	b.refused("GET", verdictPath+"?from=shop:web&to=shop:db&protocol=icmp&port=1", "", `port "1", protocol "icmp": want 1 to 65535, and tcp, udp or sctp`, 400, "invalid")
}

// Processes of another node are admitted by the addresses of the node in policies.
func TestAVerdictKnowsTheInternalIPsOfANode(t *testing.T) {
	b := withGroup(t)
	b.ok("POST", "networks/blue:access", `{"tenantName":"blue","networkName":"access","encap":"vxlan","nwType":"infra","subnet":"10.10.0.0/24","gateway":"10.10.0.254"}`)
	for _, req := range []mastercfg.CreateEndpointRequest{
		{TenantName: "blue", NetworkName: "access", ConfigEP: mastercfg.ConfigEP{Container: "h2", Host: "h2"}},
		{TenantName: "blue", NetworkName: "web", EPCommonName: "db", PodNamespace: "shop", PodUID: "u2", ConfigEP: mastercfg.ConfigEP{Container: "cdb", Host: "h1"}},
	} {
		plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, req)
	}
	write := func(key string, record any) {
		t.Helper()
		b.plan(func(tx *ledger.Tx) error { return ledger.Write(tx, key, record) })
	}
	write(mastercfg.K8sPodKey("h1", "u2"), mastercfg.K8sPod{Namespace: "shop", Name: "db", UID: "u2", Class: 7, Classed: true})
	write(mastercfg.K8sClassKey(7), mastercfg.K8sClass{JudgesIn: true, IsolatesIn: true})
	allowed := func(when string, want bool) {
		t.Helper()
		var got contivmodel.Verdicts
		if err := json.Unmarshal([]byte(b.ok("GET", verdictPath+"?from=access.blue-h2&to=shop:db&protocol=tcp&port=80", "")), &got); err != nil || len(got.Verdicts) == 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, v := range got.Verdicts {
			if v.Allowed != want {
				t.Errorf("%s: %+v", when, v)
			}
		}
	}
	policy := func(nets []string, excepts []mastercfg.TierExcept) {
		t.Helper()
		write(mastercfg.K8sPolicyPrefix+"networkpolicy/shop/p", mastercfg.K8sPolicy{Rules: []mastercfg.TierRule{{Tier: 1, Verdict: "accept", Subjects: []uint16{7}, Nets: nets, Excepts: excepts}}})
	}
	policy([]string{"192.0.2.0/24"}, nil)
	allowed("nobody knows its address", false)
	write(mastercfg.K8sNodePrefix+"h2", mastercfg.K8sNode{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}})
	allowed("it is among those that are let in", true)
	policy([]string{"192.0.2.0/24"}, []mastercfg.TierExcept{{Net: "192.0.0.0/8", Except: []string{"10.10.0.0/16"}}})
	allowed("processes are taken out", false)
	policy([]string{"192.0.2.0/24"}, []mastercfg.TierExcept{{Net: "192.0.0.0/8", Except: []string{"10.10.0.0/16"}}, {Net: "192.0.2.0/24"}})
	allowed("another network lets them in", true)
	policy([]string{"198.51.100.0/24"}, nil)
	allowed("it is not among them", false)
}
