package netctl

import (
	"cmp"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/contivmodel"
)

// startCluster starts a netmaster that reports a status, and an agent of its nodes that answers by path.
func startCluster(t *testing.T, status contivmodel.Status, agent map[string]string) (url, agentPort string) {
	t.Helper()
	return startClusterWithLists(t, status, agent, nil)
}

// denied is the list of a kind that the caller may not see.
const denied = "access denied"

// startClusterWithLists is startCluster with lists of objects, by the segment of their kind.
func startClusterWithLists(t *testing.T, status contivmodel.Status, agent, lists map[string]string) (url, agentPort string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"Version":"1.2.3","GitCommit":"abc","BuildTime":"today"}`)
	})
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(status) })
	for _, segment := range []string{"rules", "Bgps"} {
		mux.HandleFunc("/api/v1/"+segment+"/", func(w http.ResponseWriter, _ *http.Request) {
			list := cmp.Or(lists[segment], "[]")
			if list == denied {
				w.WriteHeader(http.StatusForbidden)
			}
			io.WriteString(w, list)
		})
	}
	master := httptest.NewServer(mux)
	t.Cleanup(master.Close)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := agent[r.URL.Path]
		if !ok && r.URL.Path == "/inspect/bgp" {
			body, ok = "null\n", true // no speaker
		}
		if !ok {
			http.Error(w, "waiting for the store\nand more", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, body)
	}))
	t.Cleanup(node.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(node.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return master.URL, port
}

func healthy() contivmodel.Status {
	status := contivmodel.Status{Leader: "10.0.0.1:9999", Epoch: 7, Revision: 120, Masters: []contivmodel.MasterStatus{{Address: "10.0.0.1:9999", Role: "leader"}},
		Nodes: []contivmodel.NodeStatus{
			{Host: "n1", Address: "127.0.0.1", VTEP: "10.1.0.1", Endpoints: 3, Registered: true},
			{Host: "n2", Address: "127.0.0.1:9002", VTEP: "10.1.0.2", Registered: true},
		},
		Store: contivmodel.StoreStatus{Endpoints: []string{"http://10.0.0.1:2379"}, Healthy: true}}
	status.Version.Version, status.Version.GitCommit = "1.2.3", "abc"
	return status
}

// namesServed is an agent's answer about its name server, namesOff that of one without.
const (
	namesServed = `{"server":{"on":true,"listening":true,"upstream":["192.0.2.53:53"]}}`
	namesOff    = `{"stats":{}}`
)

const driverInSync = `{"vlan":null,"vxlan":{"IsConnected":true,"VtepTable":{"n1":"10.1.0.1","n2":"10.1.0.2"},"ErrStats":{},"Datapath":{"Type":"netdev","InSync":true}}}`

// Agents are asked at the ports that they are registered with.
func TestAgentsAtPortsOfTheirOwnAreChecked(t *testing.T) {
	status := healthy()
	url, port := startCluster(t, status, map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesServed})
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	for i := range status.Nodes { // which startCluster reports
		status.Nodes[i].Port = number
	}
	if got := run(t, url, "check"); got.code != 0 || !strings.Contains(got.stdout, "ok    agent n1: http://127.0.0.1:"+port+"\n") {
		t.Errorf("%+v", got)
	}
}

func TestACheckIsALineEach(t *testing.T) {
	url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesServed})
	wantOutcome(t, "all is well", run(t, url, "check --agent-port "+port), outcome{stdout: strings.ReplaceAll(`ok    netmaster: version 1.2.3
ok    store: http://10.0.0.1:2379
ok    leader: 10.0.0.1:9999, epoch 7
ok    netmasters: 1 registered
ok    nodes: 2 registered
ok    agent n1: http://127.0.0.1:PORT
ok    switch n1: netdev datapath, in sync
ok    tunnels n1: to 1 nodes
ok    names n1: answered, others' by 192.0.2.53:53
ok    agent n2: http://127.0.0.1:PORT
ok    switch n2: netdev datapath, in sync
ok    tunnels n2: to 1 nodes
ok    names n2: answered, others' by 192.0.2.53:53
`, "PORT", port)})
}

// A user who may not see the parts of the cluster is told that they are hidden, not that there are none.
func TestWhoRunsNoClusterIsToldThatMuchIsNotShown(t *testing.T) {
	url, port := startCluster(t, contivmodel.Status{Leader: "10.0.0.1:9999", Epoch: 7, Revision: 120, Security: "enforced", Partial: true, Store: contivmodel.StoreStatus{Healthy: true},
		Version: healthy().Version}, nil)
	wantOutcome(t, "what is shown is well", run(t, url, "check --agent-port "+port), outcome{stdout: `ok    netmaster: version 1.2.3
ok    store: healthy
ok    leader: 10.0.0.1:9999, epoch 7
ok    security: enforced
ok    parts: netmasters and nodes are shown to who has the role operator or admin
`})
	wantOutcome(t, "so is the status", run(t, url, "status"), outcome{stdout: `Leader:    10.0.0.1:9999
Epoch:     7
Revision:  120
Version:   1.2.3 (` + healthy().Version.GitCommit + `)
Store:     healthy
Security:  enforced
Parts:     netmasters and nodes are shown to who has the role operator or admin
`})
	url, port = startCluster(t, contivmodel.Status{Leader: "10.0.0.1:9999", Partial: true}, nil)
	if got := run(t, url, "check --agent-port "+port); got.code != exitPartial || !strings.Contains(got.stdout, "FAIL  store: not healthy; is etcd running") {
		t.Errorf("a store that is away: %+v", got)
	}
}

func TestFailedChecksHaveAHint(t *testing.T) {
	status := healthy()
	status.Leader, status.Store.Healthy, status.Nodes[0].Registered = "", false, false
	url, port := startCluster(t, status, nil)
	wantOutcome(t, "much is wrong", run(t, url, "check --agent-port "+port), outcome{code: exitPartial, stdout: strings.ReplaceAll(`ok    netmaster: version 1.2.3
FAIL  store: not healthy: [http://10.0.0.1:2379]; is etcd running at these addresses, with a majority of its members?
FAIL  leader: nobody leads; see the logs of all netmasters; with an unhealthy store there can be no leader
ok    netmasters: 1 registered
ok    nodes: 1 registered
FAIL  node n1: not registered, 3 endpoints; start netplugin there (if it runs, its /readyz tells what keeps it away), or, if it is gone for good, wait until its endpoints are freed
FAIL  agent n2: http://127.0.0.1:PORT/readyz: 503 Service Unavailable: waiting for the store; see the log of netplugin on n2
`, "PORT", port)})

	status.Masters, status.Nodes = nil, nil
	url, port = startCluster(t, status, nil)
	if got := run(t, url, "check --agent-port "+port); strings.Contains(got.stdout, "none registered") ||
		strings.Count(got.stdout, "not known while the store does not answer") != 2 {
		t.Errorf("registrations that cannot be read: %v", got)
	}
	status = healthy()
	status.Store.Learners = []string{"n2"}
	url, port = startCluster(t, status, nil)
	if got := run(t, url, "check --agent-port "+port); !strings.Contains(got.stdout, "FAIL  votes: the store's members without a vote: n2; a member gets") || got.code != exitPartial {
		t.Errorf("a member without a vote: %v", got)
	}
	status = healthy()
	status.Store.Missing, status.Store.Full = []string{"n2", "n3"}, "the store is full: its file has 24 MiB"
	url, port = startCluster(t, status, nil)
	if got := run(t, url, "check --agent-port "+port); !strings.Contains(got.stdout, "FAIL  members: the store's members that do not answer: n2, n3; start their netmasters") ||
		!strings.Contains(got.stdout, "FAIL  room: the store is full: its file has 24 MiB; docs/operations.md says") || got.code != exitPartial {
		t.Errorf("members that are gone, and no room: %v", got)
	}

	outOfSync := strings.NewReplacer(`"InSync":true`, `"InSync":false,"Pending":{"endpoint e1":"its network"}`, `"n2":"10.1.0.2"`, `"n2":"10.1.0.9"`).Replace(driverInSync)
	status = healthy()
	status.Nodes = status.Nodes[:1]
	status.Nodes = append(status.Nodes, contivmodel.NodeStatus{Host: "n3", Address: "127.0.0.1", VTEP: "10.1.0.3"})
	url, port = startCluster(t, status, map[string]string{"/readyz": "ok\n", "/inspect/driver": outOfSync})
	got := run(t, url, "check --agent-port "+port)
	if !strings.Contains(got.stdout, "FAIL  switch n1: flows are not in sync; endpoint e1 waits for its network; is Open vSwitch running on n1?") {
		t.Errorf("out of sync: %v", got)
	}
	url, port = startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": strings.Replace(driverInSync, `"n2":"10.1.0.2"`, `"n2":"10.1.0.9"`, 1)})
	got = run(t, url, "check --agent-port "+port)
	if !strings.Contains(got.stdout, "FAIL  tunnels n1: no tunnel to n2 (10.1.0.2);") || got.code != exitPartial {
		t.Errorf("wrong tunnel: %v", got)
	}
}

func TestRulesThatAreForMoreThanTheySeemAreNamed(t *testing.T) {
	rule := func(key, more string) string {
		return `{"key":"` + key + `","direction":"in","action":"allow"` + more + `}`
	}
	well := []string{rule("blue:p:1", `,"protocol":"tcp","port":80`), rule("blue:p:2", `,"protocol":"132","port":80`), rule("blue:p:3", "")}
	old := []string{rule("blue:p:4", `,"port":80`), rule("red:p:1", `,"protocol":"icmp","port":8`), rule("red:p:2", `,"port":1`), rule("red:p:3", `,"port":2`)}
	agent := map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesServed}
	for _, c := range []struct {
		rules []string
		want  string // empty: no line
	}{
		{well, ""},
		{append(well, old[:2]...), `FAIL  rules: blue:p:4 is for all ports, not for port 80, as protocol "" has none; ` +
			`red:p:1 is for all ports, not for port 8, as protocol "icmp" has none; remove them, and add them again with protocol tcp, udp or 132 (SCTP), or without a port`},
		{old, "and 1 more; remove them"},
	} {
		url, port := startClusterWithLists(t, healthy(), agent, map[string]string{"rules": "[" + strings.Join(c.rules, ",") + "]"})
		got := run(t, url, "check --agent-port "+port)
		if named := strings.Contains(got.stdout, "rules"); named != (c.want != "") || !strings.Contains(got.stdout, c.want) || (got.code == exitPartial) != named {
			t.Errorf("%d rules: %v, want %q", len(c.rules), got, c.want)
		}
	}
}

func TestAProgramGetsTheChecksAsADocument(t *testing.T) {
	url, port := startCluster(t, healthy(), nil)
	for _, format := range []string{"json", "yaml"} {
		got := run(t, url, "check --agent-port "+port+" -o "+format)
		var all []struct {
			Name, Detail, Hint string
			OK                 bool
		}
		if err := yaml.Unmarshal([]byte(got.stdout), &all); err != nil || got.code != exitPartial || got.stderr != "" {
			t.Fatalf("%s: %+v: %v", format, got, err)
		}
		well, ill := 0, 0
		for _, c := range all {
			switch {
			case c.Name == "" || c.Detail == "" || c.OK != (c.Hint == ""):
				t.Errorf("%s: %+v", format, c)
			case c.OK:
				well++
			default:
				ill++
			}
		}
		if well == 0 || ill == 0 {
			t.Errorf("%s: %d checks are well, %d are not: %s", format, well, ill, got.stdout)
		}
	}
}

func TestUplinksAndWhatIsNotServedAreChecked(t *testing.T) {
	vlan := func(uplinks, more string) string {
		return `{"vlan":{"IsConnected":true,"Uplinks":{` + uplinks + `},"ErrStats":{` + more + `},"Datapath":{"InSync":true}},` + strings.TrimPrefix(driverInSync, `{"vlan":null,`)
	}
	for answer, want := range map[string]string{
		driverInSync: "",
		strings.Replace(driverInSync, `"ErrStats":{}`, `"ErrStats":{"LastError":"the addresses of eth1 are not given back"}`, 1): "FAIL  bridge n1: the addresses of eth1 are not given back; see the log of netplugin on n1; of former uplinks see docs/operations.md",
		vlan(`"eth1":"","eth2":""`, ""): "ok    uplinks n1: eth1, eth2 up\n",
		vlan(`"eth1":"","eth2":"uplink eth2: there is no such link"`, `"LastError":"bridge contivUplink: uplink eth2: there is no such link"`):                                             "FAIL  uplinks n1: uplink eth2: there is no such link; 1 of 2 go on; see docs/operations.md",
		vlan(`"eth1":"uplink eth1 is a port of bridge br-other"`, ""):                                                                                                                      "FAIL  uplinks n1: uplink eth1 is a port of bridge br-other; see",
		vlan(`"eth1":""`, `"LastError":"the host's addresses on uplinks cannot be written down"`):                                                                                          "FAIL  uplinks n1: the host's addresses on uplinks cannot be written down; see",
		strings.Replace(vlan(`"eth1":""`, ""), `"InSync":true`, `"InSync":false`, 1):                                                                                                       "FAIL  uplinks n1: flows are not in sync; see",
		strings.Replace(driverInSync, `"InSync":true`, `"InSync":true,"Pending":{"network lan.blue":"network lan.blue: no uplink","endpoint e":"x","endpoint f":"y","endpoint g":"z"}`, 1): "FAIL  served n1: endpoint e: x; endpoint f: y; endpoint g: z; and 1 more; see",
	} {
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": answer, "/inspect/nameserver": namesOff})
		got := run(t, url, "check --agent-port "+port)
		if want == "" && strings.Contains(got.stdout, "uplinks") || !strings.Contains(got.stdout, want) {
			t.Errorf("%s:\n%s\nwant %q", answer, got.stdout, want)
		}
	}
}

func TestANodesNameServerIsChecked(t *testing.T) {
	for answer, want := range map[string]string{
		namesOff:                  "",
		`{"server":{"on":false}}`: "",
		`{"server":{"on":true,"listening":true,"upstream":[]}}`:                                                                                      "ok    names n1: answered, others' by nobody\n",
		`{"server":{"on":true,"listening":true,"upstream":["192.0.2.53:53"],"problem":"name server 192.0.2.53:53: SERVFAIL"}}`:                       "ok    names n1: answered, others' by 192.0.2.53:53; the last question had no answer: name server 192.0.2.53:53: SERVFAIL\n",
		`{"server":{"on":true,"listening":true,"upstream":["192.0.2.53:53","192.0.2.54:53"],"passedOver":"name server 192.0.2.53:53: i/o timeout"}}`: "ok    names n1: answered, others' by 192.0.2.53:53, 192.0.2.54:53; passed over at the last question: name server 192.0.2.53:53: i/o timeout\n",
		`{"server":{"on":true,"listening":false}}`:                                                                                                   "FAIL  names n1: nobody listens where endpoints ask; was n1 upgraded under its pods?",
	} {
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": answer})
		got := run(t, url, "check --agent-port "+port)
		if want == "" && strings.Contains(got.stdout, "names n1") || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: %s, want %q", answer, got.stdout, want)
		}
	}
}

func TestBGPOfANodeIsChecked(t *testing.T) {
	peer := func(address, state, problem string) string {
		return `{"config":{"neighbor-address":"` + address + `","peer-as":65100},"state":{"session-state":"` + state + `","last-error":"` + problem + `"}}`
	}
	for answer, want := range map[string]string{
		"null": "",
		`{"peers":[` + peer("192.0.2.1", "established", "") + `],"dsts":["0.0.0.0/0"]}`: "ok    bgp n1: 1 neighbours, 1 routes\n",
		`{"peers":[` + peer("192.0.2.1", "established", "") + "," + peer("192.0.2.2", "active", "refused") + "," + peer("192.0.2.3", "idle", "") + `],"dsts":[]}`: "FAIL  bgp n1: " +
			"no session with 192.0.2.2 of AS 65100: refused; no session with 192.0.2.3 of AS 65100; see netctl bgp inspect n1, and the router's log\n",
		// A flapping session may be established at the moment of the check.
		`{"peers":[{"config":{"neighbor-address":"192.0.2.1","peer-as":65100},"state":{"session-state":"established","flapping":"7 sessions have ended"}}],"dsts":[]}`: "FAIL  bgp n1: " +
			"192.0.2.1 of AS 65100 flaps: 7 sessions have ended; see netctl bgp inspect n1, and the router's log\n",
		`{"peers":[],"dsts":[],"problem":"port inb01: no uplink"}`: "FAIL  bgp n1: port inb01: no uplink; see",
		"nonsense": "FAIL  bgp n1: invalid character",
	} {
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesOff, "/inspect/bgp": answer})
		got := run(t, url, "check --agent-port "+port)
		if want == "" && strings.Contains(got.stdout, "bgp n1") || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: %s, want %q", answer, got.stdout, want)
		}
	}
}

// Earlier versions let two nodes have one address among the external routers, which take the one for the other.
func TestNodesWithOneRouterAddressAreNamed(t *testing.T) {
	speaker := func(host, address, address6 string) string {
		return `{"key":"` + host + `","hostname":"` + host + `","as":"65001","routerip":"` + address + `","ipv6Routerip":"` + address6 + `"}`
	}
	list := func(speakers ...string) string { return "[" + strings.Join(speakers, ",") + "]" }
	for speakers, want := range map[string]string{
		denied: "",
		list(speaker("n1", "192.0.2.11/24", "2001:db8::11/64"), speaker("n2", "192.0.2.12/24", ""), speaker("n3", "192.0.2.13/24", "")):                  "",
		list(speaker("n1", "192.0.2.11/24", ""), speaker("n2", "192.0.2.11/25", "")):                                                                     "FAIL  routers: 192.0.2.11 is the router-ip of n1, n2; give each",
		list(speaker("n3", "192.0.2.11/24", "2001:db8:0::11/64"), speaker("n2", "192.0.2.11/24", ""), speaker("n1", "192.0.2.11/24", "2001:db8::11/64")): "FAIL  routers: 192.0.2.11 is the router-ip of n1, n2, n3; 2001:db8::11 is the router-ipv6 of n1, n3; give each",
	} {
		agent := map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesOff}
		url, port := startClusterWithLists(t, healthy(), agent, map[string]string{"Bgps": speakers})
		got := run(t, url, "check --agent-port "+port)
		if want == "" && strings.Contains(got.stdout, "routers") || !strings.Contains(got.stdout, want) {
			t.Errorf("%s\nwant %q", got.stdout, want)
		}
	}
}

func TestPreflightLooksAtThisMachineOnly(t *testing.T) {
	t.Setenv("OVS_RUNDIR", t.TempDir())
	l, err := net.Listen("tcp", ":9090")
	if err == nil {
		defer l.Close()
	} // else it is taken already, which is as good
	got := run(t, "http://127.0.0.1:1", "check --preflight")
	for _, want := range []string{"ovsdb-server: dial unix", "ovs-vswitchd: open", "port tcp/9090: listen tcp :9090: bind: address already in use"} {
		if !strings.Contains(got.stdout, "FAIL  "+want) {
			t.Errorf("no %q in %v", want, got)
		}
	}
	if got.code != exitPartial || got.stderr != "" {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

func TestAnUnreachableNetmasterIsAFailedCheck(t *testing.T) {
	got := run(t, "http://127.0.0.1:1", "check")
	if got.code != exitPartial || !strings.HasPrefix(got.stdout, "FAIL  netmaster: cannot reach netmaster at http://127.0.0.1:1") || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("got %v", got)
	}
}

func TestAProbeNeedsAConfiguration(t *testing.T) {
	url, port := startCluster(t, contivmodel.Status{}, nil)
	got := run(t, url, "check --probe --agent-port "+port+" --cni-conf "+t.TempDir())
	if got.code != exitPartial || !strings.Contains(got.stdout, "FAIL  probe configuration: ") {
		t.Errorf("got %v", got)
	}
}

func TestStatusIsOnePage(t *testing.T) {
	status := healthy()
	status.Nodes[1].Registered = false
	status.Masters[0].Version, status.Nodes[0].Version = "1.2.3", "1.2.2"
	url, _ := startCluster(t, status, nil)
	wantOutcome(t, "status", run(t, url, "status"), outcome{stdout: `Leader:    10.0.0.1:9999
Epoch:     7
Revision:  120
Version:   1.2.3 (abc)
Store:     healthy at http://10.0.0.1:2379

Netmasters:
Address        Role    Version
-------        ----    -------
10.0.0.1:9999  leader  1.2.3

Nodes:
Host  Address         VTEP      Endpoints  Agent       Version
----  -------         ----      ---------  -----       -------
n1    127.0.0.1       10.1.0.1  3          registered  1.2.2
n2    127.0.0.1:9002  10.1.0.2  0          gone
`})
	status.Store.Learners = []string{"n2", "n3"}
	url, _ = startCluster(t, status, nil)
	if got := run(t, url, "status"); !strings.Contains(got.stdout, "Store:     healthy, no vote yet for n2, n3, at http://10.0.0.1:2379\n") {
		t.Errorf("learners: %v", got)
	}
	status.Store.Learners, status.Store.Missing, status.Store.Full = nil, []string{"n2"}, "the store is full"
	url, _ = startCluster(t, status, nil)
	if got := run(t, url, "status"); !strings.Contains(got.stdout, "Store:     healthy, no answer from n2, FULL: nothing can be added, at http://10.0.0.1:2379\n") {
		t.Errorf("a member that is gone, and no room: %v", got)
	}
	if got := run(t, url, "status -o json"); got.code != 0 || !strings.Contains(got.stdout, `"leader": "10.0.0.1:9999"`) {
		t.Errorf("json: %v", got)
	}
}

func TestServicesAreChecked(t *testing.T) {
	for want, services := range map[string]*contivmodel.ServicesStatus{
		"ok    nodes: 2 registered\nok    agent":                      nil,
		"ok    services: 3\n":                                         {Count: 3},
		"ok    services: 3; with nobody behind: blue/shop, red/web\n": {Count: 3, Unserved: []string{"blue/shop", "red/web"}},
	} {
		status := healthy()
		status.Services = services
		url, port := startCluster(t, status, map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesOff})
		if got := run(t, url, "check --agent-port "+port); !strings.Contains(got.stdout, want) || got.code != 0 {
			t.Errorf("%v\nwant %q", got, want)
		}
	}
}

func TestKubernetesIsChecked(t *testing.T) {
	well := func() *contivmodel.KubernetesStatus {
		return &contivmodel.KubernetesStatus{Nodes: []string{"n1", "n2"}, Services: 3, Waiting: 1, Behind: 2}
	}
	for name, c := range map[string]struct {
		change func(k *contivmodel.KubernetesStatus)
		want   string
	}{
		"all is well": {func(*contivmodel.KubernetesStatus) {}, "ok    kubernetes: followed, 1 changes wait\nok    kubernetes nodes: 2, each with an agent\nok    kubernetes services: 3\n"},
		"a service of nobody": {func(k *contivmodel.KubernetesStatus) { k.Unserved = []string{"default/shop/web"} },
			"ok    kubernetes services: 3; with nobody behind: default/shop/web\n"},
		"many of them": {func(k *contivmodel.KubernetesStatus) { k.Unserved = strings.Split("a b c d e f g", " ") }, "behind: a, b, c, d, e and 2 more\n"},
		"the API server is away": {func(k *contivmodel.KubernetesStatus) { k.Problem = "the API server does not answer: timeout" },
			"FAIL  kubernetes: the API server does not answer: timeout; pods that are known go on"},
		"what changes waits": {func(k *contivmodel.KubernetesStatus) { k.Waiting, k.Behind = 7, 40 }, "FAIL  kubernetes: 7 changes wait, the first for 40 s; pods that"},
		"nodes are not the same": {func(k *contivmodel.KubernetesStatus) { k.Nodes = []string{"n1", "n3"} },
			"FAIL  kubernetes nodes: without an agent: n3; agents of no node: n2; an agent's --host is"},
		"objects that do not get what they ask for": {func(k *contivmodel.KubernetesStatus) {
			k.Troubles, k.Untold = []contivmodel.KubernetesTrouble{{Object: "pod shop/web", Reason: "GroupNotFound", Message: "tenant default has no group x: netctl group create"}}, 4
		}, "FAIL  pod shop/web: GroupNotFound; tenant default has no group x: netctl group create\nFAIL  kubernetes: 4 more objects have troubles; see their events\n"},
	} {
		status := healthy()
		status.Kubernetes = well()
		c.change(status.Kubernetes)
		url, port := startCluster(t, status, map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesOff})
		got := run(t, url, "check --agent-port "+port)
		if !strings.Contains(got.stdout, c.want) || (got.code != 0) != strings.Contains(c.want, "FAIL") {
			t.Errorf("%s: %v\nwant %q", name, got, c.want)
		}
	}
}

// The nodes of the test have one agent, which answers for both.
func TestWhoDoesNotAnswerByTheTunnelIsTold(t *testing.T) {
	for answer, want := range map[string]string{
		`{"n1":true,"n2":true}`: "ok    tunnels n1: to 1 nodes\n",
		`{"n1":true,"n2":false}`: "FAIL  tunnels n1: no answer by the tunnel from n2 (10.1.0.2); " +
			"have both nodes their --vtep-ip still, on links that are up, and does UDP 4789 (--vxlan-port) pass between them, both ways?\n",
		`{"n2":true,"n3":false}`: "ok    tunnels n1: to 1 nodes\n", // it is registered no more
		`{}`:                     "ok    tunnels n1: to 1 nodes\n", // there was no time
		`404 page not found`:     "ok    tunnels n1: to 1 nodes\n", // of an earlier release
	} {
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": driverInSync, "/inspect/nameserver": namesOff, "/inspect/tunnels": answer})
		got := run(t, url, "check --agent-port "+port)
		if !strings.Contains(got.stdout, want) || !strings.Contains(got.stdout, "ok    tunnels n2: to 1 nodes\n") || (got.code != 0) != strings.Contains(want, "FAIL") {
			t.Errorf("%s: %v\nwant %s", answer, got, want)
		}
	}
}

func TestWhatANodeComplainsOfIsTold(t *testing.T) {
	for problem, want := range map[string]string{
		`"KubeProxy":"table ip kube-proxy"`: "FAIL  kube-proxy n1: its rules are in nftables: table ip kube-proxy; they lead the node's processes to those that it knew, or knows, " +
			"at addresses of services: when nobody needs it any more, remove it and them, see docs/kubernetes.md, From kube-proxy\n",
		`"PodConfiguration":"runtimes take 00-other.conflist"`: "FAIL  pods n1: runtimes take 00-other.conflist; see docs/kubernetes.md, Debug\n",
		`"Registrations":"host n2 is at 192.0.2.2, a later registration says 192.0.2.9"`: "FAIL  registrations n1: host n2 is at 192.0.2.2, a later registration says 192.0.2.9; " +
			"two agents run with one --host-label, or one --vtep-ip; stop the one that is wrong\n",
		`"Conflicts":"endpoint a and endpoint b want different flows for the same packets"`: "FAIL  objects n1: endpoint a and endpoint b want different flows for the same packets; " +
			"one of the two is not reached, or not sent: give it another address, or remove it\n",
	} {
		answer := strings.Replace(driverInSync, `"ErrStats":{}`, `"ErrStats":{`+problem+`}`, 1)
		url, port := startCluster(t, healthy(), map[string]string{"/readyz": "ok\n", "/inspect/driver": answer, "/inspect/nameserver": namesOff})
		if got := run(t, url, "check --agent-port "+port); !strings.Contains(got.stdout, want) {
			t.Errorf("%v\nwant %s", got, want)
		}
	}
}
