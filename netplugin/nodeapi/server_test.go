package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// node is an agent with the answers that the test wants.
type node struct {
	ready, reclaim error
	reclaimed      []string
	objects        []pipeline.Object // more than the usual ones
	inspected      func()            // nil, or called by each inspection
}

func (n *node) Ready() error { return n.ready }

// exampleNames are those of an endpoint.
type exampleNames struct{}

func (exampleNames) Records() map[string]nameserver.Records {
	return map[string]nameserver.Records{"blue": {"endpoints": {"c1": {"ipv4:10.1.1.1"}}}}
}

func (exampleNames) State() nameserver.State {
	return nameserver.State{On: true, Listening: true, Upstream: []string{"192.0.2.1:53"}}
}

func (exampleNames) Stats() nameserver.Stats {
	return nameserver.Stats{Tenants: map[string]nameserver.TenantStats{"blue": {Invalid: 1, Unnamed: 2, Named: 3}}}
}

func (n *node) User(epID string) (string, error) {
	if epID == "web.blue-1" {
		return "pod@eth0", nil
	}
	return "", fault.New(fault.NotFound, "endpoint %s: nobody uses it", epID)
}

func (n *node) Counters(_ context.Context, kind pipeline.Kind, id string) (agent.Counters, error) {
	var counted agent.Counters
	if kind != pipeline.KindEndpoint {
		counted.Rules = map[string]drivers.Count{"blue:r": {Packets: 3, Bytes: 300}}
	}
	if kind != pipeline.KindRule && id == "" || id == "web.blue-1" {
		counted.Endpoints = map[string]agent.EndpointCounts{"web.blue-1": {Received: drivers.Count{Packets: 1, Bytes: 64}, Sent: drivers.Count{Packets: 2, Bytes: 128}}}
	}
	return counted, n.ready
}

func (n *node) Reclaim(_ context.Context, epID string) error {
	n.reclaimed = append(n.reclaimed, epID)
	return n.reclaim
}

func (n *node) Inspect() agent.Inspection {
	if n.inspected != nil {
		n.inspected()
	}
	vtep := netip.MustParseAddr("192.0.2.1")
	return agent.Inspection{
		HostLabel: "node1", VTEP: vtep, FwdMode: "routing", ArpMode: "proxy",
		Peers: map[string]netip.Addr{"node2": netip.MustParseAddr("192.0.2.2")}, VRFs: map[string]uint16{"blue": 7},
		Objects: append([]pipeline.Object{
			pipeline.Network{ID: "web.blue", Tenant: "blue", VNI: 11, Tag: 1, Subnet: netip.MustParsePrefix("10.1.0.0/16")},
			pipeline.Endpoint{ID: "web.blue-1", Tenant: "blue", IPv4: netip.MustParseAddr("10.1.0.2"), MAC: [6]byte{2, 2, 10, 1, 0, 2}, Local: true},
			pipeline.Endpoint{ID: "web.blue-2", Tenant: "blue", VTEP: netip.MustParseAddr("192.0.2.2")},
			pipeline.FloodSet{Network: "web.blue", Members: [][6]byte{{2, 2, 10, 1, 0, 2}}, VTEPs: []netip.Addr{netip.MustParseAddr("192.0.2.2")}},
			pipeline.Rule{ID: "blue:r", Priority: 1, Allow: true},
		}, n.objects...),
		Pending: map[string]string{"endpoint x": "host has no known VTEP"},
		Status:  drivers.Status{Connected: true, Bridge: "contivVxlanBridge", Datapath: "netdev", Flows: 12},
	}
}

func exampleDrops(context.Context) (map[string]map[string]drivers.Count, error) {
	return map[string]map[string]drivers.Count{"contivVxlanBridge": {"forged": {Packets: 5, Bytes: 300}}}, nil
}

// start serves a node and returns the server's URL.
func start(t *testing.T, n *node, change ...func(*Config)) string {
	t.Helper()
	metrics := prometheus.NewRegistry()
	if err := metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "netplugin_flows", Help: "Flows."}, func() float64 { return 12 })); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cfg := Config{Address: "[::]:0", CtrlIP: "198.51.100.1", Agent: n, Attachments: n, Names: exampleNames{}, Metrics: metrics, Drops: exampleDrops,
		KubeProxy: func(context.Context) (string, error) { return "table ip kube-proxy", nil },
		Release:   func(context.Context) (string, error) { return "3.1.0", nil }, Package: func() (string, error) { return "3.1.0-2", nil },
		Replaced: func(context.Context) (bool, error) { return true, nil },
		Listeners: func(context.Context) ([]drivers.Listener, error) {
			return []drivers.Listener{{Target: "ptcp:6640"}}, errors.New("no control socket")
		},
		Tunnels: func(context.Context) (map[string]bool, error) {
			return map[string]bool{"node2": true, "node3": false}, nil
		}}
	for _, c := range change {
		c(&cfg)
	}
	server, err := Listen(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(server.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "http://127.0.0.1:" + port
}

func call(t *testing.T, method, url string) (status int, contentType, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(content)
}

func TestRoutesAnswerInTheirShape(t *testing.T) {
	url := start(t, &node{})
	const jsonType, textType = "application/json", "text/plain; charset=utf-8"
	for _, c := range []struct {
		method, path string
		status       int
		contentType  string
		body         string
	}{
		{"GET", "/svcstats", 200, jsonType, "{}\n"},
		{"GET", "/inspect/bgp", 200, jsonType, "null\n"},
		{"GET", "/inspect/nameserver", 200, jsonType, `{"dnsRecords":{"blue":{"endpoints":{"c1":["ipv4:10.1.1.1"]}}},"endpointQueue":[],"server":{"on":true,"listening":true,"upstream":["192.0.2.1:53"],"problem":"","passedOver":""},"serviceQueue":[],"stats":{"blue":{"invalidQuery":1,"noNameRecord":2,"foundNameRecord":3}}}` + "\n"},
		{"GET", "/inspect/drops", 200, jsonType, `{"contivVxlanBridge":{"forged":{"packets":5,"bytes":300}}}` + "\n"},
		{"GET", "/inspect/tunnels", 200, jsonType, `{"node2":true,"node3":false}` + "\n"},
		{"GET", "/inspect/counters?kind=rule", 200, jsonType, `{"rules":{"blue:r":{"packets":3,"bytes":300}},"endpoints":{}}` + "\n"},
		{"GET", "/inspect/counters?kind=endpoint&id=web.blue-1", 200, jsonType,
			`{"rules":{},"endpoints":{"web.blue-1":{"rxPackets":1,"rxBytes":64,"txPackets":2,"txBytes":128}}}` + "\n"},
		{"GET", "/inspect/counters?kind=endpoint&id=other", 200, jsonType, `{"rules":{},"endpoints":{}}` + "\n"},
		{"GET", "/inspect/counters?kind=pod", 400, textType, "kind \"pod\": want rule, endpoint or service, such as /inspect/counters?kind=rule\n"},
		{"GET", "/healthz", 200, textType, "ok\n"},
		{"GET", "/readyz", 200, textType, "ok\n"},
		{"GET", "/inspect/endpoint/web.blue-1", 200, jsonType, `{"endpoint":"web.blue-1","user":"pod@eth0"}` + "\n"},
		{"GET", "/inspect/endpoint/web.blue-2", 404, textType, "endpoint web.blue-2: nobody uses it\n"},
		{"DELETE", "/debug/reclaimEndpoint/web.blue-1", 200, jsonType, "null\n"},
		{"GET", "/debug/reclaimEndpoint/web.blue-1", 405, "", ""},
		{"POST", "/healthz", 405, "", ""},
		{"GET", "/nowhere", 404, textType, "404 page not found\n"},
	} {
		status, contentType, body := call(t, c.method, url+c.path)
		if status != c.status || contentType != c.contentType || body != c.body {
			t.Errorf("%s %s: got %d %q %q", c.method, c.path, status, contentType, body)
		}
	}
}

func TestInspectDriverShowsWhatTheAgentThinks(t *testing.T) {
	_, _, body := call(t, "GET", start(t, &node{})+"/inspect/driver")
	var got map[string]map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if bridge, there := got["vlan"]; !there || bridge != nil {
		t.Errorf("vlan bridge: %v", bridge)
	}
	vxlan := got["vxlan"]
	for _, member := range strings.Fields("LocalIp MyPort MyAddr IsConnected DpName Protopath MasterDb VtepTable EndpointDb VrfNameIdMap VrfDb FwdMode ArpMode Stats ErrStats Datapath") {
		if _, there := vxlan[member]; !there {
			t.Errorf("member %s is missing", member)
		}
	}
	if diff := cmp.Diff(map[string]any{"node2": "192.0.2.2"}, vxlan["VtepTable"]); diff != "" {
		t.Error(diff)
	}
	endpoints, ok := vxlan["EndpointDb"].(map[string]any)
	if !ok || len(endpoints) != 2 || endpoints["10.1.0.2:blue"] == nil || endpoints["web.blue-2"] == nil {
		t.Errorf("endpoints: %v", vxlan["EndpointDb"])
	}
	if !strings.Contains(body, "host has no known VTEP") {
		t.Error("what is pending is not shown")
	}
	if !strings.Contains(body, `"Version":"3.1.0","Package":"3.1.0-2","Replaced":true`) {
		t.Errorf("the version of the switch is not shown: %s", body)
	}
	if !strings.Contains(body, `"Listeners":[{"Target":"ptcp:6640"}]`) || !strings.Contains(body, `"Listeners":"no control socket"`) {
		t.Errorf("who else changes the switch is not shown: %s", body)
	}
	if !strings.Contains(body, `"KubeProxy":"table ip kube-proxy"`) {
		t.Errorf("rules of kube-proxy are not shown: %s", body)
	}
	if !strings.Contains(body, `"FloodMembers":1,"FloodVteps":["192.0.2.2"]`) {
		t.Errorf("whom the network floods to is not shown: %s", body)
	}
}

// The package is reported only if it has the running release; a failure to find out is an error.
func TestOnlyThePackageThatRunsIsTold(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		release, installed string
		noRelease, noDpkg  error
		version, pkg       string
		replaced           bool
	}{
		{release: "3.1.0", installed: "3.1.0-2+deb12u1", version: "3.1.0", pkg: "3.1.0-2+deb12u1", replaced: true},
		{release: "3.3.0", installed: "3.1.0-2+deb12u1", version: "3.3.0"},
		{release: "3.1.0", version: "3.1.0"},
		{noRelease: broken, installed: "3.1.0-2"},
		{release: "3.1.0", noDpkg: broken, version: "3.1.0"},
	} {
		h := handlers{Config: Config{Release: func(context.Context) (string, error) { return c.release, c.noRelease },
			Package:  func() (string, error) { return c.installed, c.noDpkg },
			Replaced: func(context.Context) (bool, error) { return true, nil }}}
		var got datapathView
		err := h.version(t.Context(), &got)
		if got.Version != c.version || got.Package != c.pkg || got.Replaced != c.replaced || (err != nil) != (c.noRelease != nil || c.noDpkg != nil) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

func TestNodeIsAliveBeforeItIsReady(t *testing.T) {
	url := start(t, &node{ready: fault.New(fault.Unavailable, "waiting for the store")})
	if status, _, _ := call(t, "GET", url+"/healthz"); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	if status, _, body := call(t, "GET", url+"/readyz"); status != 503 || body != "waiting for the store\n" {
		t.Errorf("readyz: %d %q", status, body)
	}
}

// Pods of a node that the cluster does not know are reached by no other node, whatever its switch has.
func TestANodeThatTheClusterRefusesIsNotReady(t *testing.T) {
	var refused atomic.Pointer[error]
	url := start(t, &node{}, func(cfg *Config) {
		cfg.Refused = func() error {
			if err := refused.Load(); err != nil {
				return *err
			}
			return nil
		}
	})
	answers := func(status int, body string) {
		t.Helper()
		if got, _, text := call(t, "GET", url+"/readyz"); got != status || text != body+"\n" {
			t.Errorf("readyz: %d %q", got, text)
		}
		if got, _, _ := call(t, "GET", url+"/healthz"); got != 200 {
			t.Errorf("healthz: %d", got)
		}
	}
	answers(200, "ok")
	removed := error(fault.New(fault.Denied, "node n1 was removed"))
	refused.Store(&removed)
	answers(503, "the cluster refuses this node: node n1 was removed")
	refused.Store(nil)
	answers(200, "ok")
}

func TestReclaimReportsItsFailure(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{fault.New(fault.Unavailable, "switch is away"), 503}, {fault.New(fault.Conflict, "pod@eth0 uses it"), 409}, {errors.New("boom"), 500},
	} {
		n := &node{reclaim: c.err}
		status, _, body := call(t, "DELETE", start(t, n)+"/debug/reclaimEndpoint/web.blue-1")
		if status != c.status || !strings.Contains(body, c.err.Error()) {
			t.Errorf("%v: %d %q", c.err, status, body)
		}
		if diff := cmp.Diff([]string{"web.blue-1"}, n.reclaimed); diff != "" {
			t.Error(diff)
		}
	}
}

func TestOnlyTheNodeItselfMayReclaim(t *testing.T) {
	n := &node{}
	url := start(t, n)
	handler := routesOf(Config{Agent: n, Attachments: n, Names: exampleNames{}, Metrics: prometheus.NewRegistry(), Log: testkit.Quiet()})
	for _, remote := range []string{"192.0.2.9:4711", "[2001:db8::9]:4711", "[::ffff:192.0.2.9]:4711", ""} {
		request, answer := httptest.NewRequest(http.MethodDelete, "/debug/reclaimEndpoint/web.blue-2", nil), httptest.NewRecorder()
		request.RemoteAddr = remote
		handler.ServeHTTP(answer, request)
		if answer.Code != 403 || !strings.Contains(answer.Body.String(), "127.0.0.1") || n.reclaimed != nil {
			t.Errorf("from %q: %d %q, reclaimed %v", remote, answer.Code, answer.Body, n.reclaimed)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/debug/reclaimEndpoint/web.blue-2", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "http://evil.example")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 || n.reclaimed != nil {
		t.Errorf("from a page of another site: %d, reclaimed %v", resp.StatusCode, n.reclaimed)
	}
}

func TestClientsThatDoNotReadCostTwoAnswers(t *testing.T) {
	n := &node{}
	for i := range 50_000 {
		n.objects = append(n.objects, pipeline.Endpoint{ID: fmt.Sprintf("web.blue-%d", i), Tenant: "blue"})
	}
	url := start(t, n)
	before := inUse()
	for range 16 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET /inspect/driver HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	// This question may come before theirs, and is answered then.
	testkit.Eventually(t, time.Minute, "503 while nobody reads", func() bool {
		status, _, _ := call(t, "GET", url+"/inspect/driver")
		return status == 503
	})
	// Two that are kept take 18 MiB, and 120 while they are made, as on a busy machine they may still
	// be; sixteen that are kept would take 290.
	if grown := inUse() - before; grown > 150<<20 {
		t.Errorf("16 clients that do not read cost %d MiB", grown>>20)
	}
	if status, _, _ := call(t, "GET", url+"/readyz"); status != 200 {
		t.Errorf("short answers meanwhile: %d", status)
	}
}

// inUse is the memory that is in use, in bytes. What encoding/json keeps for the next answer is
// not: the second collection takes it.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// Every answer that grows with the cluster takes one of the places.
func TestAllLongAnswersShareThePlaces(t *testing.T) {
	began, finish := make(chan struct{}, 1), make(chan struct{})
	url := start(t, &node{inspected: func() { began <- struct{}{}; <-finish }})
	var answers sync.WaitGroup
	for range bigAnswers {
		answers.Go(func() {
			if resp, err := http.Get(url + "/inspect/driver"); err == nil {
				resp.Body.Close()
			}
		})
		<-began
	}
	var others sync.WaitGroup
	for _, path := range []string{"/inspect/driver", "/inspect/counters", "/inspect/bgp", "/inspect/nameserver", "/svcstats"} {
		others.Go(func() {
			resp, err := http.Get(url + path)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s beside two that are being made: %s", path, resp.Status)
			}
		})
	}
	others.Wait()
	close(finish)
	answers.Wait()
}

func TestMetricsAreThoseRegistered(t *testing.T) {
	if _, _, body := call(t, "GET", start(t, &node{})+"/metrics"); !strings.Contains(body, "netplugin_flows 12") {
		t.Errorf("got %s", body)
	}
}

func TestAddressInUseIsAnErrorAtStart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, err := Listen(t.Context(), Config{Address: listener.Addr().String()}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

func TestBigBodiesAndHeadersAreNotRead(t *testing.T) {
	url := start(t, &node{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Big: "+strings.Repeat("x", 2*maxHeader)+"\r\n\r\n")
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), "431") {
		t.Errorf("got %q, %v", answer[:n], err)
	}
}
