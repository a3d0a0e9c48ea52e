package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/hops"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// The sender's node traces first, then the receiver's if the packet reaches it.
func TestTheNodesOnThePathOfAPacketAreAsked(t *testing.T) {
	b, h1, h2 := withNodes(t)
	for host, name := range map[string]string{"h1": "c1", "h2": "c2", "h3": "c3"} {
		plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
			TenantName: "blue", NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Container: name, Host: host},
		})
	}
	whole := hops.Hop{Node: "h1", Packet: "in_port=1", Exit: hops.Tunnel, Next: "h2", To: "node h2", Reason: "r", Means: "m", Table: "T", Of: "o", Note: "n",
		Steps: []hops.Step{{Table: "T", Of: "o", Match: "m", Does: "d"}}}
	said, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	h1.set(func(n *nodeREST) { n.trace = string(said) })
	h2.set(func(n *nodeREST) { n.trace = `{"node":"h2","exit":"dropped","reason":"denied"}` })
	var got contivmodel.Trace
	if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/trace?from=c1&to=c2&protocol=tcp&port=80&source=10.7.0.9", "")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Hops) != 2 || got.Hops[0].Node != "h1" || got.Hops[1].Reason != "denied" || got.Source != "10.7.0.9" {
		t.Errorf("%+v", got)
	}
	if told, err := json.Marshal(got.Hops[0]); err != nil || string(told) != string(said) {
		t.Errorf("the node said %s, told is %s", said, told)
	}
	const asked = "/inspect/trace?from=web.blue-c1&port=80&protocol=tcp&source=10.7.0.9&to=web.blue-c2"
	for name, n := range map[string]*nodeREST{"h1": h1, "h2": h2} {
		n.set(func(n *nodeREST) {
			if strings.Join(n.asked, " ") != asked {
				t.Errorf("%s was asked %q", name, n.asked)
			}
		})
	}
	h1.set(func(n *nodeREST) {
		n.trace = `{"node":"h1","exit":"tunnel","next":"h2","nextTo":"10.7.0.2","nextPort":8080}`
	})
	h2.set(func(n *nodeREST) { n.asked = nil })
	b.ok("GET", "/api/v1/trace?from=c1&to=10.7.0.200&protocol=tcp&port=80", "")
	h2.set(func(n *nodeREST) {
		if asked := "/inspect/trace?from=web.blue-c1&port=8080&protocol=tcp&source=&to=10.7.0.2"; strings.Join(n.asked, " ") != asked {
			t.Errorf("of a packet for a service, the node of the provider was asked %q, want %q", n.asked, asked)
		}
	})
	h2.set(func(n *nodeREST) { n.trace = `{"node":"h2","exit":"tunnel","next":"h1"}` })
	if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/trace?from=c1&to=10.7.0.2&protocol=icmp&port=0", "")), &got); err != nil || len(got.Hops) != 2 {
		t.Errorf("nodes that send each other a packet: %v, %+v", err, got)
	}
	h1.set(func(n *nodeREST) { n.trace = `{"node":"h1","exit":"tunnel","next":"h3"}` })
	if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/trace?from=c1&to=c3&protocol=tcp&port=80", "")), &got); err != nil ||
		len(got.Hops) != 2 || got.Hops[1].Node != "h3" || got.Hops[1].Exit != hops.Silent || !strings.Contains(got.Hops[1].Note, "does not answer") {
		t.Errorf("the second node does not answer: %v, %+v", err, got)
	}
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	b.ok("POST", "networks/red:shop", `{"tenantName":"red","networkName":"shop","nwType":"data","encap":"vxlan","subnet":"10.8.0.0/24","gateway":"10.8.0.254"}`)
	b.ok("POST", "serviceLBs/red:vip", `{"tenantName":"red","serviceName":"vip","networkName":"shop","selectors":["app=vip"],"ports":["80:8080:TCP"],"externalIps":["198.51.100.80"],"nodePorts":["30080:80:tcp"]}`)
	h1.set(func(n *nodeREST) { n.trace = `{"node":"h1","exit":"host"}` })
	for query, want := range map[string]string{
		"to=198.51.100.80&protocol=tcp&port=80":    "service vip of tenant red",
		"to=198.51.100.80&protocol=tcp&port=81":    "",
		"to=198.51.100.80&protocol=udp&port=80":    "",
		"to=198.51.100.81&protocol=tcp&port=80":    "",
		"to=198.51.100.81&protocol=tcp&port=30080": "", // no machine of the cluster
		"to=198.51.100.80&protocol=icmp&port=0":    "",
		"to=c2&protocol=tcp&port=30080":            "",
	} {
		got = contivmodel.Trace{}
		if err := json.Unmarshal([]byte(b.ok("GET", "/api/v1/trace?from=c1&"+query, "")), &got); err != nil || len(got.Hops) != 1 || got.Hops[0].To != want {
			t.Errorf("%s: %v, %+v; want the host to lead to %q", query, err, got.Hops, want)
		}
	}
	h1.set(func(n *nodeREST) { n.trace = `{` })
	for query, want := range map[string]string{
		"from=c1&to=c2&protocol=tcp&port=80":          "is not understood",
		"from=c3&to=c2&protocol=tcp&port=80":          "does not answer",
		"from=c9&to=c2&protocol=tcp&port=80":          "endpoint not found",
		"from=c1&to=c9&protocol=tcp&port=80":          "endpoint not found",
		"from=c1&to=c2&protocol=tcp&port=0":           "want 1 to 65535",
		"from=c1&to=c2&protocol=igmp&port=1":          "want 1 to 65535",
		"from=c1&to=c2&protocol=udp&port=1&source=c1": "want an address",
	} {
		if status, text, _ := b.do("GET", "/api/v1/trace?"+query, ""); status == http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", query, status, text, want)
		}
	}
	for query, want := range map[string]string{"from=c9&to=c2": "c9", "from=c1&to=10.1.0.1/24": "10.1.0.1/24"} {
		if _, text, _ := b.do("GET", "/api/v1/trace?protocol=tcp&port=80&"+query, "", "Accept", fault.ProblemType); !strings.Contains(text, `endpoint \"`+want+`\"`) {
			t.Errorf("%s: %s, want %s named", query, text, want)
		}
	}
}
