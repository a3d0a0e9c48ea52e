package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// bench is an API on a real, empty store.
type bench struct {
	testing.TB
	db     *objdb.DB
	ledger *ledger.Ledger
	given  *given // the API's ledger
	api    *API
	url    string
	client *http.Transport
}

// given is a ledger that a test may replace.
type given struct{ auth.Ledger }

// start begins with an empty store: no global object, no tenant.
func start(t testing.TB, change ...func(*Config)) *bench {
	t.Helper()
	db := storetest.Open(t)
	ledger := storetest.Lead(t, db)
	config := Config{ClusterMode: "cni", Self: "127.0.0.1:1", Log: testkit.Quiet(),
		Defaults: WithDefaults(contivmodel.Global{FwdMode: "routing"})}
	for _, c := range change {
		c(&config)
	}
	given := &given{ledger}
	a := New(given, db, mirror.NewFeed(db, mastercfg.ModelRoot), config)
	run(t, a)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest.Identify(w, r) // as the daemon's server does
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(client.CloseIdleConnections)
	return &bench{t, db, ledger, given, a, server.URL, client}
}

// run serves watches until stop, which the end of the test calls at the latest.
func run(t testing.TB, a *API) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// ready begins with the global object and the tenant blue.
func ready(t testing.TB, change ...func(*Config)) *bench {
	b := start(t, change...)
	b.ok("POST", "globals/global", `{"name":"global","fwdMode":"routing","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	return b
}

// booted begins like a new cluster: with what a leader makes at its start.
func booted(t testing.TB, change ...func(*Config)) *bench {
	b := start(t, change...)
	if err := b.api.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// do sends a request; a path that is not absolute is below the model's root.
func (b *bench) do(method, path, body string, headers ...string) (int, string, http.Header) {
	b.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/" + path + "/"
	}
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	conforms(b, req, resp, string(answer))
	return resp.StatusCode, strings.TrimSuffix(string(answer), "\n"), resp.Header
}

// ok sends a request that must succeed.
func (b *bench) ok(method, path, body string) string {
	b.Helper()
	code, answer, _ := b.do(method, path, body)
	if code != http.StatusOK {
		b.Fatalf("%s %s %s: %d %s", method, path, body, code, answer)
	}
	return answer
}

// tooShort matches the error texts of the original that are made clearer for people.
var tooShort = regexp.MustCompile(`(string invalid format|Value Out of bound|string too long|Invalid Key|^Invalid tenant name|` +
	`^Invalid selector options|^Invalid Port maping .*|^invalid ip-pool .*|hostIP .*|^Network subnet format not valid|^Contracts group need .*|^can not specify .*|Tenant not found|Policy not found|after its created|requested vlan not available .*|requested vxlan .*|after epg is created\.)$`)

// isTooShort reports whether a refusal has a longer text for people. A missing network profile is named only where
// a group refers to it.
func isTooShort(text, reason string) bool {
	return tooShort.MatchString(text) || text == "netprofile not found" && reason == "missing-reference"
}

// refused sends a request that must be refused with a text and, for clients
// that ask, a code and reason; it must leave no trace in the store.
func (b *bench) refused(method, path, body, text string, code int, reason string) {
	b.Helper()
	before := storetest.Dump(b, b.db)
	status, answer, header := b.do(method, path, body)
	if status != 500 || answer != text {
		b.Errorf("%s %s %.200s:\n got %d %q\nwant 500 %q", method, path, body, status, answer, text)
	}
	if header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("X-Content-Type-Options") != "nosniff" {
		b.Errorf("headers of a refusal: %v", header)
	}
	status, answer, _ = b.do(method, path, body, "Accept", "application/problem+json")
	var p fault.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		b.Fatalf("%s %s: %q: %v", method, path, answer, err)
	}
	if status != code || p.Code != code || p.Reason != reason || (p.Message == text) == isTooShort(text, reason) {
		b.Errorf("%s %s %.200s:\n got %d %+v\nwant %d %s %q", method, path, body, status, p, code, reason, text)
	}
	if diff := cmp.Diff(before, storetest.Dump(b, b.db)); diff != "" {
		b.Errorf("%s %s left a trace: %s", method, path, diff)
	}
}

// plugin posts to a plugin route and decodes the answer.
func plug[T any](b *bench, path string, request any) T {
	b.Helper()
	answer, err := tryPlug[T](b, path, request)
	if err != "" {
		b.Fatalf("%s %+v: %s", path, request, err)
	}
	return answer
}

func tryPlug[T any](b *bench, path string, request any) (answer T, failure string) {
	b.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		b.Fatal(err)
	}
	code, text, header := b.do("POST", path, string(body), "Content-Type", "application/json")
	if code != http.StatusOK {
		return answer, text
	}
	if header.Get(mastercfg.RevisionHeader) == "" {
		b.Errorf("%s: no revision", path)
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&answer); err != nil {
		b.Fatalf("%s: %q: %v", path, text, err)
	}
	return answer, ""
}

// endpoint creates an endpoint and returns its record.
func (b *bench) endpoint(tenant, network, group, container string) mastercfg.CfgEndpointState {
	b.Helper()
	return plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
		TenantName: tenant, NetworkName: network,
		ConfigEP: mastercfg.ConfigEP{Container: container, Host: "h1", ServiceName: group},
	}).EndpointConfig
}

// noEndpoint deletes an endpoint.
func (b *bench) noEndpoint(tenant, network, container string) {
	b.Helper()
	plug[mastercfg.DeleteEndpointResponse](b, mastercfg.DeleteEndpointPath, mastercfg.DeleteEndpointRequest{
		TenantName: tenant, NetworkName: network, EndpointID: container})
}

// record reads a record of the store.
func record[T any](b *bench, key string) T {
	b.Helper()
	var v T
	kv, err := b.db.Get(b.Context(), key)
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		b.Fatal(err)
	}
	return v
}

// web is the network most tests use.
const web = `{"tenantName":"blue","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24","gateway":"10.7.0.254"}`
