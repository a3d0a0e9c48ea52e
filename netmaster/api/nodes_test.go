package api

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// nodeREST is the REST server of a node, on an address of its own.
type nodeREST struct {
	mu       sync.Mutex
	bgp      string // answer of /inspect/bgp
	failing  bool   // it cannot determine whether a container uses an endpoint
	joining  bool   // has not joined yet, so that it knows no netmaster
	counters string // answer of /inspect/counters; empty: there is no such route
	trace    string // answer of /inspect/trace
	redirect string // target of a redirect of every request
	used     string // endpoint that a container uses
	asked    []string
	held     chan struct{} // answers of /inspect/counters wait until it is closed; nil: they do not
}

func (n *nodeREST) set(change func(*nodeREST)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *nodeREST) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/inspect/counters" && n.held != nil {
		n.set(func(n *nodeREST) { n.asked = append(n.asked, r.URL.String()) })
		<-n.held
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	id, inspect := strings.CutPrefix(r.URL.Path, "/inspect/endpoint/")
	switch {
	case n.joining:
		http.Error(w, "the connection is plain", http.StatusUnauthorized)
	case n.redirect != "":
		http.Redirect(w, r, n.redirect+r.URL.Path, http.StatusTemporaryRedirect)
	case r.Method == http.MethodGet && r.URL.Path == "/inspect/counters" && n.counters != "":
		_, _ = w.Write([]byte(n.counters))
	case r.Method == http.MethodGet && r.URL.Path == "/inspect/trace":
		n.asked = append(n.asked, r.URL.String())
		_, _ = w.Write([]byte(n.trace))
	case r.Method == http.MethodGet && r.URL.Path == "/inspect/bgp" && n.bgp == "":
		http.Error(w, "as many answers are under way as there may be", http.StatusServiceUnavailable)
	case r.Method == http.MethodGet && r.URL.Path == "/inspect/bgp":
		n.asked = append(n.asked, r.URL.Path)
		_, _ = w.Write([]byte(n.bgp))
	case r.Method == http.MethodGet && inspect && n.failing:
		http.Error(w, "switch is away", http.StatusInternalServerError)
	case r.Method == http.MethodGet && inspect && id == n.used:
		_, _ = w.Write([]byte(`{"endpoint":"` + id + `","user":"c5@eth0"}` + "\n"))
	case r.Method == http.MethodGet && inspect:
		n.asked = append(n.asked, id)
		http.Error(w, "nobody on this node uses it", http.StatusNotFound)
	default:
		http.NotFound(w, r)
	}
}

// An error of a node is short in logs and in answers, whatever the node says: viewers of a tenant get it, too.
func TestAnErrorOfANodeIsCutOff(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/header" {
			w.Header().Set("Server", long)
		}
		http.Error(w, long, http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	at := agentAt{host: "h1", address: "127.0.0.1", port: server.Listener.Addr().(*net.TCPAddr).Port}
	for path, kind := range map[string]fault.Kind{"/body": fault.Internal, "/header": fault.Unavailable} {
		_, err := nodes{}.get(t.Context(), at, path, longAnswer)
		if fault.KindOf(err) != kind || len(err.Error()) > 5000 {
			t.Errorf("%s: %s, %d bytes", path, fault.KindOf(err), len(fmt.Sprint(err)))
		}
	}
}

// withNodes begins with the nodes h1 at 127.0.0.1 and h2 at 127.0.0.2, which answer, h2 at a port of its own, and
// h3 at 127.0.0.3, which is registered and does not answer.
func withNodes(t testing.TB) (b *bench, h1, h2 *nodeREST) {
	t.Helper()
	servers, ports := []*nodeREST{{}, {}}, map[string]int{}
	for i, address := range []string{"127.0.0.1", "127.0.0.2"} {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(address)})
		if err != nil {
			t.Fatal(err)
		}
		ports[address] = l.Addr().(*net.TCPAddr).Port
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: servers[i]}}
		server.Start()
		t.Cleanup(server.Close)
	}
	b = furnished(t, func(c *Config) { c.AgentPort = ports["127.0.0.1"] })
	delete(ports, "127.0.0.1") // which is the usual one
	var services []objdb.Service
	for host, address := range map[string]string{"h1": "127.0.0.1", "h2": "127.0.0.2", "h3": "127.0.0.3"} {
		for port, name := range map[int]string{9002: mastercfg.AgentService, 9003: mastercfg.AgentService, 4789: mastercfg.AgentVTEPService} {
			services = append(services, objdb.Service{ServiceName: name, HostAddr: address, Port: port, REST: ports[address], Hostname: host})
		}
	}
	registration, err := b.db.Register(t.Context(), 10*time.Second, services...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := registration.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, 20*time.Second, "nodes are registered", func() bool {
		all, err := b.db.Services(t.Context(), mastercfg.AgentVTEPService)
		return err == nil && len(all) == 3
	})
	return b, servers[0], servers[1]
}

// Neighbours identify a node by its address, and would take one node for the other.
func TestTheAddressOfANodeAmongTheRoutersIsNobodyElses(t *testing.T) {
	b, _, _ := withNodes(t)
	b.ok("POST", "networks/blue:out", `{"tenantName":"blue","networkName":"out","encap":"vlan","subnet":"10.9.0.0/24","ipv6Subnet":"2001:db8:9::/64"}`)
	b.ok("POST", "Bgps/h1", `{"hostname":"h1","routerip":"50.1.1.1/24","ipv6Routerip":"2001:db8::1/64"}`)
	b.ok("POST", "Bgps/h2", `{"hostname":"h2","routerip":"50.1.1.2/24","ipv6Routerip":"2001:db8::2/64"}`)
	tunnels, err := b.db.Register(t.Context(), 10*time.Second, objdb.Service{ServiceName: mastercfg.AgentVTEPService, HostAddr: "50.1.1.9", Port: 4789, Hostname: "h9"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tunnels.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	testkit.Eventually(t, 20*time.Second, "the leader knows of the tunnels", func() bool {
		code, _, _ := b.do("POST", "Bgps/h3", `{"hostname":"h3","routerip":"50.1.1.9/24"}`)
		b.do("DELETE", "Bgps/h3", "")
		return code == http.StatusInternalServerError
	})
	const shared = ": routed networks of encapsulation vlan share the addresses outside"
	speaker := func(host, four, six string) string {
		return fmt.Sprintf(`{"hostname":%q,"routerip":%q,"ipv6Routerip":%q,"as":"65001"}`, host, four, six)
	}
	b.refuseAll([]refusal{
		{"POST", "Bgps/h3", speaker("h3", "50.1.1.1/24", ""), "routerip 50.1.1.1 of node h3 is that of node h1", 409, "conflict"},
		{"POST", "Bgps/h3", speaker("h3", "50.1.1.1/16", ""), "routerip 50.1.1.1 of node h3 is that of node h1", 409, "conflict"},
		{"POST", "Bgps/h3", speaker("h3", "50.1.1.3/24", "2001:db8:0::2/64"), "ipv6Routerip 2001:db8::2 of node h3 is that of node h2", 409, "conflict"},
		{"POST", "Bgps/h3", speaker("h3", "50.1.1.9/24", ""), "routerip 50.1.1.9 of node h3 is the address at which node h9 is reached: want one that no other interface has", 409, "conflict"},
		{"POST", "Bgps/h9", speaker("h9", "50.1.1.9/24", ""), "routerip 50.1.1.9 of node h9 is the address at which node h9 is reached: want one that no other interface has", 409, "conflict"},
		{"POST", "Bgps/h2", speaker("h2", "50.1.1.1/24", ""), "routerip 50.1.1.1 of node h2 is that of node h1", 409, "conflict"},
		{"PUT", "Bgps/h2", speaker("h2", "50.1.1.1/24", ""), "routerip 50.1.1.1 of node h2 is that of node h1", 409, "conflict"},
		{"POST", "Bgps/h3", speaker("h3", "50.1.1.3/24", "2001:db8::/64"), `ipv6Routerip "2001:db8::/64": is the address of all routers of the link, want that of one host, such as 2001:db8::11/64`, 400, "invalid"},
		{"POST", "Bgps/h3", speaker("h3", "10.9.0.7/16", ""), "routerip 10.9.0.7 of node h3 is in network out of tenant blue" + shared, 409, "conflict"},
		{"POST", "Bgps/h3", speaker("h3", "50.1.1.3/24", "2001:db8:9::7/64"), "ipv6Routerip 2001:db8:9::7 of node h3 is in network out of tenant blue" + shared, 409, "conflict"},
		{"POST", "networks/blue:far", `{"tenantName":"blue","networkName":"far","encap":"vlan","subnet":"50.1.0.0/16"}`, "network far has 50.1.1.1, the address of node h1 among the routers outside", 409, "conflict"},
		{"POST", "networks/blue:far", `{"tenantName":"blue","networkName":"far","encap":"vlan","subnet":"50.1.1.8/29"}`, "network far has 50.1.1.9, the address at which node h9 is reached" + shared, 409, "conflict"},
		{"POST", "networks/blue:far", `{"tenantName":"blue","networkName":"far","encap":"vlan","ipv6Subnet":"2001:db8::/64"}`, "network far has 2001:db8::1, the address of node h1 among the routers outside", 409, "conflict"},
	})
	b.ok("POST", "networks/blue:far", `{"tenantName":"blue","networkName":"far","encap":"vxlan","subnet":"50.1.0.0/16"}`)
	b.ok("DELETE", "Bgps/h1", "")
	b.ok("POST", "Bgps/h2", speaker("h2", "50.1.1.1/24", ""))
	b.refused("POST", "Bgps/h1", speaker("h1", "50.1.1.1/24", ""), "routerip 50.1.1.1 of node h1 is that of node h2", 409, "conflict")
}

// A store of an earlier version may have values that are refused now: they are read, and other fields can be
// changed.
func TestNodesThatHaveOneAddressSinceBeforeAreChanged(t *testing.T) {
	b := furnished(t)
	for _, host := range []string{"h1", "h2"} {
		b.store(mastercfg.ModelKey("Bgp", host), `{"key":"`+host+`","hostname":"`+host+`","routerip":"50.1.1.1/24","ipv6Routerip":"2001:db8::/64","as":"65001"}`)
	}
	speaker := func(as, link string) string {
		return `{"hostname":"h2","routerip":"` + link + `","ipv6Routerip":"2001:db8::/64","as":"` + as + `"}`
	}
	if read := b.ok("GET", "Bgps/h2", ""); !strings.Contains(read, "50.1.1.1/24") {
		t.Error(read)
	}
	b.ok("POST", "Bgps/h2", speaker("65002", "50.1.1.1/24"))
	if is := record[mastercfg.CfgBgpState](b, mastercfg.BgpPrefix+"h2"); is.As != "65002" || is.RouterIP != "50.1.1.1/24" {
		t.Errorf("%+v", is)
	}
	if _, err := record[mastercfg.CfgBgpState](b, mastercfg.BgpPrefix+"h2").Speaker(); err != nil {
		t.Error(err)
	}
	b.refused("POST", "Bgps/h2", speaker("65002", "50.1.1.1/16"), "routerip 50.1.1.1 of node h2 is that of node h1", 409, "conflict")
	b.ok("POST", "Bgps/h2", speaker("65002", "50.1.1.2/24"))
	b.refused("POST", "Bgps/h2", speaker("65002", "50.1.1.1/24"), "routerip 50.1.1.1 of node h2 is that of node h1", 409, "conflict")
}

// at creates an endpoint of blue:web on a host.
func (b *bench) at(host, container, group string) {
	b.Helper()
	plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
		TenantName: "blue", NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Container: container, Host: host, ServiceName: group}})
}

func TestANodeCannotSendNetmasterElsewhere(t *testing.T) {
	b, h1, _ := withNodes(t)
	victim := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("netmaster was sent to %s %s", r.Method, r.URL)
	}))
	t.Cleanup(victim.Close)
	h1.set(func(n *nodeREST) { n.redirect = victim.URL })
	b.at("h1", "c1", "")
	code, text, _ := b.do("DELETE", "/debug/epcleanup/tenant/blue/ep/c1", "")
	if code != 500 || !strings.Contains(text, "307 Temporary Redirect") {
		t.Errorf("%d %s", code, text)
	}
	if diff := cmp.Diff([]string{"web.blue-c1"}, b.left()); diff != "" {
		t.Error(diff)
	}
}

func TestCountersAreSummedOverTheNodesThatAnswer(t *testing.T) {
	b, h1, h2 := withNodes(t)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.at("h1", "c1", "front")
	const rule = `"blue:front:blue:p:blue:p:1:inRx":{"packets":3,"bytes":300},"blue:front:blue:p:blue:p:1:inTx":{"packets":2,"bytes":200},` +
		`"blue:front:blue:q:blue:q:1:inRx":{"packets":9,"bytes":900}`
	h1.set(func(n *nodeREST) {
		n.counters = `{"rules":{` + rule + `},"endpoints":{"web.blue-c1":{"packets":5,"bytes":50,"rxPackets":1,"rxBytes":10,"txPackets":4,"txBytes":40}}}`
	})
	h2.set(func(n *nodeREST) { n.counters = `{"rules":{` + rule + `}}` })
	var got contivmodel.PolicyCounters
	if err := json.Unmarshal([]byte(b.ok("GET", countersPath+"blue:p", "")), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]contivmodel.RuleCounters{"blue:p:1": {Packets: 10, Bytes: 1000}}, got.Rules); diff != "" {
		t.Error(diff)
	}
	if len(got.Silent) != 1 || !strings.HasPrefix(got.Silent[0], "h3: ") {
		t.Errorf("silent: %v", got.Silent)
	}
	if ep := inspected[contivmodel.EndpointOper](b, "endpoints/c1"); ep.Counters == nil || *ep.Counters != (contivmodel.EndpointCounters{RxPackets: 1, RxBytes: 10, TxPackets: 4, TxBytes: 40}) {
		t.Errorf("counters of an endpoint: %+v", ep.Counters)
	}
	// An answer larger than any node needs is not accepted.
	h2.set(func(n *nodeREST) {
		n.counters = `{"rules":{` + rule + `},"more":"` + strings.Repeat("m", countedAnswer) + `"}`
	})
	if err := json.Unmarshal([]byte(b.ok("GET", countersPath+"blue:p", "")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Silent) != 2 || !strings.HasPrefix(got.Silent[0], "h2: ") || !strings.Contains(got.Silent[0], "more than") {
		t.Errorf("silent: %v", got.Silent)
	}
	h1.set(func(n *nodeREST) { n.counters = "" }) // an agent that counts nothing
	if ep := inspected[contivmodel.EndpointOper](b, "endpoints/c1"); ep.Counters != nil {
		t.Errorf("counters of an endpoint: %+v", ep.Counters)
	}
	b.refused("GET", countersPath+"blue:none", "", "policy not found", 404, "not-found")
}

// Concurrent requests for the counters of rules share one request to each node, and only one is in progress:
// thousands of requests to netmaster do not become thousands to each node.
func TestNodesAreAskedForCountersOnceForAllWhoAsk(t *testing.T) {
	b, h1, _ := withNodes(t)
	h1.held = make(chan struct{})
	h1.counters = `{"rules":{"blue:front:blue:p1:blue:p1:1:inRx":{"packets":3,"bytes":300}}}`
	const clients = 12
	for i := range clients {
		b.ok("POST", fmt.Sprintf("policys/blue:p%d", i), fmt.Sprintf(`{"tenantName":"blue","policyName":"p%d"}`, i))
	}
	var entered atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered.Add(1)
		b.api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			text := b.ok("GET", fmt.Sprintf("%sblue:p%d", countersPath, i), "")
			if strings.Contains(text, `"packets":3`) != (i == 1) {
				t.Errorf("policy %d: %s", i, text)
			}
		})
	}
	asked := func() (n int) {
		h1.set(func(h *nodeREST) { n = len(h.asked) })
		return n
	}
	testkit.Eventually(t, 20*time.Second, "the node is asked", func() bool { return asked() > 0 })
	testkit.Eventually(t, 20*time.Second, "all have asked", func() bool { return entered.Load() == clients })
	close(h1.held)
	asking.Wait()
	if n := asked(); n > 3 { // some may come just after the answer
		t.Errorf("%d clients ask: the node is asked %d times", clients, n)
	}
}

func TestDebugShowsWhatAgentsActOn(t *testing.T) {
	b, _, _ := withNodes(t)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"deny"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`)
	b.at("h1", "c1", "front")
	var got struct {
		MyAddr     string
		MyPort     int
		AgentDb    map[string]ofnetNode
		EndpointDb map[string]mastercfg.CfgEndpointState
		PolicyDb   map[string]mastercfg.CfgPolicyRule
	}
	if err := json.Unmarshal([]byte(b.ok("GET", "/debug/ofnet", "")), &got); err != nil {
		t.Fatal(err)
	}
	if got.MyAddr != "127.0.0.1" || got.MyPort != 1 || len(got.AgentDb) != 6 || got.AgentDb["127.0.0.2:9002"].Hostname != "h2" {
		t.Errorf("nodes %+v", got)
	}
	if got.EndpointDb["web.blue-c1"].IPAddress != "10.7.0.1" || got.PolicyDb["blue:front:blue:p:blue:p:1:inRx"].Action != "deny" {
		t.Errorf("state %+v", got)
	}
}

// The answers of nodes are not returned to a caller that has lost its right meanwhile.
func TestARightThatIsLostWhileNodesAreAskedCountsForTheAnswer(t *testing.T) {
	b, h1, _ := withNodes(t)
	h1.held = make(chan struct{})
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.mode(mastercfg.SecurityEnforced)
	token := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	answered := make(chan int, 1)
	go func() {
		code, _, _ := b.do("GET", countersPath+"blue:p", "", auth.TokenHeader, token, "Accept", fault.ProblemType)
		answered <- code
	}()
	testkit.Eventually(t, 20*time.Second, "the node is asked", func() (asked bool) {
		h1.set(func(n *nodeREST) { asked = len(n.asked) > 0 })
		return asked
	})
	b.plan(func(tx *ledger.Tx) error {
		tx.Range(mastercfg.BindingsPrefix, func(key string, _ []byte) bool { tx.Delete(key); return true })
		return nil
	})
	close(h1.held)
	if code := <-answered; code != http.StatusForbidden {
		t.Errorf("status %d", code)
	}
}

// One of a node's registrations has the abilities of its agent.
func TestItIsKnownWhichAgentsKnowRulesAboutAnyPod(t *testing.T) {
	b := furnished(t)
	agent := func(host string, port int, knows bool) objdb.Service {
		return objdb.Service{ServiceName: mastercfg.AgentService, HostAddr: "127.0.0.1", Port: port, Hostname: host, AnyPod: knows}
	}
	registration, err := b.db.Register(t.Context(), 10*time.Second, agent("h1", 1, true), agent("h1", 2, false), agent("h2", 3, false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := registration.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, 20*time.Second, "it is told of both", func() bool {
		knows, err := b.api.KnowAnyPod(t.Context())
		return err == nil && maps.Equal(knows, map[string]bool{"h1": true, "h2": false})
	})
}

// The agent of a joined node is asked with the key of its name; a node whose name has no key is not asked.
func TestANodeThatHasJoinedIsAskedByItsKey(t *testing.T) {
	asked := ""
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) {
		c.NodeTLS = func(host, key string) *tls.Config {
			asked = host + " " + key
			return &tls.Config{MinVersion: tls.VersionTLS13}
		}
	})
	client := func(host string) error {
		_, err := b.api.nodes.client(agentAt{host, "127.0.0.1", 0, true})
		return err
	}
	if err := client("h1"); err != nil || asked != "h1 k1" {
		t.Errorf("asked as %q: %v", asked, err)
	}
	for host, path := range map[string]string{"h1": mastercfg.NodesPath + "/h1/rekey", "h2": ""} {
		if asked = ""; path != "" {
			b.want("proven:root", "POST", path, "", 200, "")
		}
		if err := client(host); !fault.Is(err, fault.Unavailable) || asked != "" {
			t.Errorf("%s: asked as %q: %v", host, asked, err)
		}
	}
}
