package client

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// serve starts a server that lives as long as the test.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func connectTo(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// nobody returns the URL of a server that is gone.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// answer returns a handler with one answer.
func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func TestRequestsAreThoseServersExpect(t *testing.T) {
	var got string
	c := connectTo(t, Config{URLs: []string{serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s%s", r.Method, r.RequestURI, r.Header.Get("Content-Type"), body)
		if !strings.Contains(r.Header.Get("Accept"), "application/problem+json") {
			t.Error("problem documents are not asked for")
		}
		if strings.HasSuffix(r.URL.Path, "networks/") {
			io.WriteString(w, "[]")
			return
		}
		io.WriteString(w, "{}")
	})}})
	ctx := t.Context()
	ignore := func(_ any, err error) error { return err }
	for _, step := range []struct {
		err  func() error
		want string
	}{
		{func() error { return ignore(List[contivmodel.Network](ctx, c)) }, "GET /api/v1/networks/ "},
		{func() error { return ignore(Get[contivmodel.Network](ctx, c, "blue:web")) }, "GET /api/v1/networks/blue:web/ "},
		{func() error { return ignore(Get[contivmodel.Network](ctx, c, "a b?c%#")) }, "GET /api/v1/networks/a%20b%3Fc%25%23/ "},
		{func() error { return ignore(c.InspectRaw(ctx, "Bgps", "n1")) }, "GET /api/v1/inspect/Bgps/n1/ "},
		{func() error { return ignore(Endpoint(ctx, c, "e1")) }, "GET /api/v1/inspect/endpoints/e1/ "},
		{func() error { return Delete[contivmodel.Policy](ctx, c, "blue:p") }, "DELETE /api/v1/policys/blue:p/ "},
		{func() error { return ignore(c.Version(ctx)) }, "GET /version "},
		{func() error { return ignore(c.Info(ctx)) }, "GET /info "},
		{func() error {
			return Post(ctx, c, &contivmodel.Policy{TenantName: "blue", PolicyName: "p", Key: "stale",
				Links: contivmodel.PolicyLinks{Tenant: contivmodel.Link{Type: "tenant", Key: "mine"}}})
		}, `POST /api/v1/policys/blue:p/ application/json{"key":"blue:p","policyName":"p","tenantName":"blue","link-sets":{},"links":{"Tenant":{}}}`},
	} {
		if err := step.err(); err != nil {
			t.Errorf("%s: %v", step.want, err)
		}
		if got != step.want {
			t.Errorf("sent %s, want %s", got, step.want)
		}
	}
}

func TestKeysThatCannotBeAddressedAreRefused(t *testing.T) {
	c := connectTo(t, Config{URLs: []string{serve(t, func(http.ResponseWriter, *http.Request) { t.Error("request sent") })}})
	for _, key := range []string{"", "a/b", "..", ".", "a\nb", `a\b`} {
		if _, err := Get[contivmodel.Tenant](t.Context(), c, key); !fault.Is(err, fault.Invalid) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestAnswersAreDecodedAndSorted(t *testing.T) {
	web := contivmodel.Network{Key: "blue:web", TenantName: "blue", NetworkName: "web"}
	app := contivmodel.Network{Key: "blue:app", TenantName: "blue", NetworkName: "app"}
	inspect := contivmodel.NetworkInspect{Config: web, Oper: contivmodel.NetworkOper{NumEndpoints: 3}}
	answers := map[string]any{
		"/api/v1/networks/":                  []contivmodel.Network{web, app},
		"/api/v1/networks/blue:web/":         web,
		"/api/v1/inspect/networks/blue:web/": inspect,
	}
	c := connectTo(t, Config{URLs: []string{serve(t, func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(answers[r.URL.Path])
	})}})
	same := func(want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	all, err := List[contivmodel.Network](t.Context(), c)
	same([]contivmodel.Network{app, web}, all, err)
	kind, _ := contivmodel.KindByType("network")
	objects, err := c.List(t.Context(), kind)
	same([]contivmodel.Object{&app, &web}, objects, err)
	one, err := Get[contivmodel.Network](t.Context(), c, "blue:web")
	same(web, one, err)
	seen, err := Inspect[contivmodel.Network, contivmodel.NetworkOper](t.Context(), c, "blue:web")
	same(inspect, seen, err)
}

func TestRefusalsHaveTheirKind(t *testing.T) {
	problem := `{"code":%d,"reason":%q,"message":"cannot delete web has 1 endpoint groups","field":"subnet","details":["endpointGroup blue:front"]}`
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		status        int
		media, body   string
		kind          fault.Kind
		text          string
		field, detail string
	}{
		{409, "application/problem+json", fmt.Sprintf(problem, 409, "in-use"), fault.InUse, "cannot delete web has 1 endpoint groups", "subnet", "endpointGroup blue:front"},
		{404, "application/problem+json; charset=utf-8", fmt.Sprintf(problem, 404, "not-found"), fault.NotFound, "cannot delete web has 1 endpoint groups", "subnet", "endpointGroup blue:front"},
		{409, "application/problem+json", fmt.Sprintf(problem, 409, "newer-than-us"), fault.Conflict, "cannot delete web has 1 endpoint groups", "subnet", "endpointGroup blue:front"},
		{503, "application/problem+json", "not JSON", fault.Unavailable, "503 Service Unavailable: not JSON", "", ""},
		{500, "text/plain", "network not found\n", fault.NotFound, "network not found", "", ""},
		{500, "text/plain", "endpoint not found\n", fault.NotFound, "endpoint not found", "", ""},
		{500, "text/plain", "Tenant not found\n", fault.Internal, "Tenant not found", "", ""},
		{500, "text/plain", "Invalid Key\nmain.go:17 main()\n", fault.Internal, "Invalid Key", "", ""},
		{500, "text/plain", "", fault.Internal, "500 Internal Server Error", "", ""},
		{500, "text/plain", long, fault.Internal, long, "", ""},
		{404, "text/plain", "404 page not found\n", fault.NotFound, "page not found: /api/v1/networks/blue:web/", "", ""},
		{403, "text/html", "<html>", fault.Denied, "access denied", "", ""},
		{401, "text/plain", "", fault.Denied, "access denied", "", ""},
		{418, "text/plain", "teapot", fault.Internal, "418 I'm a teapot: teapot", "", ""},
		{502, "text/plain", "", fault.Unavailable, "502 Bad Gateway", "", ""},
	} {
		client := connectTo(t, Config{URLs: []string{serve(t, answer(c.status, c.media, c.body))}})
		err := Delete[contivmodel.Network](t.Context(), client, "blue:web")
		if !fault.Is(err, c.kind) || err.Error() != c.text || fault.As(err).Field != c.field || strings.Join(fault.As(err).Details, "") != c.detail {
			t.Errorf("%d %q: got %v (%v), want %q (%v)", c.status, c.body, err, fault.KindOf(err), c.text, c.kind)
		}
	}
}

func TestAnswersThatCannotBeUnderstoodAreErrors(t *testing.T) {
	c := connectTo(t, Config{URLs: []string{serve(t, answer(200, "text/html", "<html>login</html>"))}})
	if _, err := List[contivmodel.Tenant](t.Context(), c); !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), "cannot be understood") {
		t.Errorf("got %v", err)
	}
	if err := Post(t.Context(), c, &contivmodel.Tenant{TenantName: "blue"}); err != nil {
		t.Errorf("the answer to a post does not matter: %v", err)
	}
}

func TestEndlessAnswersAreCutShort(t *testing.T) {
	c := connectTo(t, Config{URLs: []string{serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range maxAnswer>>20 + 1 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})}})
	if _, err := List[contivmodel.Tenant](t.Context(), c); !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestUnreachableServersAreReplacedByTheNext(t *testing.T) {
	var requests atomic.Int32
	good := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			requests.Add(1)
		}
		io.WriteString(w, "{}")
	})
	c := connectTo(t, Config{URLs: []string{nobody(t), nobody(t), good}})
	tenant := &contivmodel.Tenant{TenantName: "blue"}
	if err := Post(t.Context(), c, tenant); err != nil {
		t.Fatalf("a post that nobody can have received must go on: %v", err)
	}
	if c.current.Load() != 3 {
		t.Error("the server that answered is not remembered")
	}
	if err := Post(t.Context(), c, tenant); err != nil || requests.Load() != 2 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

func TestAllServersUnreachableNamesThemAll(t *testing.T) {
	first, second := nobody(t), nobody(t)
	c := connectTo(t, Config{URLs: []string{first, second}})
	_, err := List[contivmodel.Tenant](t.Context(), c)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyReadsAreRepeatedAfterAnswers(t *testing.T) {
	for _, status := range []int{502, 503, 500, 404} {
		var later atomic.Int32
		tired := serve(t, answer(status, "text/plain", "no"))
		fresh := serve(t, func(w http.ResponseWriter, _ *http.Request) { later.Add(1); io.WriteString(w, "[]") })
		c := connectTo(t, Config{URLs: []string{tired, fresh}})
		if err := Post(t.Context(), c, &contivmodel.Tenant{TenantName: "blue"}); err == nil || later.Load() != 0 {
			t.Errorf("%d: post repeated, %v", status, err)
		}
		_, err := List[contivmodel.Tenant](t.Context(), c)
		if repeated := later.Load() == 1 && err == nil; repeated != (status > 500) {
			t.Errorf("%d: read repeated: %v, %v", status, repeated, err)
		}
	}
}

func TestSilentServersRunIntoTheTimeout(t *testing.T) {
	release := make(chan struct{})
	silent := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	c := connectTo(t, Config{URLs: []string{silent}, Timeout: 50 * time.Millisecond})
	begin := time.Now()
	err := Post(t.Context(), c, &contivmodel.Tenant{TenantName: "blue"})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no answer in time") || !strings.Contains(err.Error(), silent) {
		t.Errorf("got %v", err)
	}
	if waited := time.Since(begin); waited > 10*time.Second {
		t.Errorf("waited %v", waited)
	}
	fresh := serve(t, answer(200, "application/json", "[]"))
	c = connectTo(t, Config{URLs: []string{silent, fresh}, Timeout: 500 * time.Millisecond})
	if _, err := List[contivmodel.Tenant](t.Context(), c); err != nil {
		t.Errorf("a read goes on to the next server: %v", err)
	}
	c = connectTo(t, Config{URLs: []string{silent, fresh}, Timeout: 500 * time.Millisecond})
	if err := Post(t.Context(), c, &contivmodel.Tenant{TenantName: "blue"}); err != nil {
		t.Errorf("a change is asked of a server that answers: %v", err)
	}
	c = connectTo(t, Config{URLs: []string{silent}, Timeout: 50 * time.Millisecond})
	tenants, _ := contivmodel.KindByType("tenant")
	if err := c.Watch(t.Context(), tenants, "", nil); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("a watch that does not begin: %v", err)
	}
}

func TestTheCallersContextEndsARequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := connectTo(t, Config{URLs: []string{
		serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }),
		serve(t, func(http.ResponseWriter, *http.Request) { t.Error("request repeated") }),
	}})
	if _, err := List[contivmodel.Tenant](ctx, c); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestServersMustProveWhoTheyAre(t *testing.T) {
	var token atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("X-Auth-Token"))
		io.WriteString(w, "[]")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that clients give up
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		cfg     Config
		refused bool
	}{
		{"unknown authority", Config{}, true},
		{"trusted authority", Config{CAFile: ca}, false},
		{"another name", Config{CAFile: ca, ServerName: "elsewhere.test"}, true},
		{"no verification", Config{Insecure: true}, false},
	} {
		c.cfg.URLs, c.cfg.Token = []string{s.URL}, "secret"
		_, err := List[contivmodel.Tenant](t.Context(), connectTo(t, c.cfg))
		switch {
		case c.refused && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "certificate refused")):
			t.Errorf("%s: %v", c.name, err)
		case !c.refused && (err != nil || token.Load() != "secret"):
			t.Errorf("%s: %v, token %v", c.name, err, token.Load())
		}
	}
}

func TestTokensAreNotSentInTheClear(t *testing.T) {
	c := connectTo(t, Config{Token: "secret", URLs: []string{serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Auth-Token") != "" {
			t.Error("token sent over http")
		}
		io.WriteString(w, "[]")
	})}})
	if _, err := List[contivmodel.Tenant](t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestUnusableConfigurationsAreRefused(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{URLs: []string{""}},
		{URLs: []string{"netmaster:9999"}},
		{URLs: []string{"ftp://netmaster"}},
		{URLs: []string{"http://"}},
		{URLs: []string{"http://good", "://bad"}},
		{URLs: []string{"https://good"}, CAFile: "/nonexistent"},
		{URLs: []string{"https://good"}, CertFile: "/nonexistent", KeyFile: "/nonexistent"},
		{URLs: []string{"https://good"}, CAFile: os.Args[0]},
	} {
		if _, err := New(cfg); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// A request that was too early is sent again; one with a refusal that does not promise success later is not.
func TestWhoAsksTooOftenWaits(t *testing.T) {
	for _, c := range []struct {
		reason string
		asked  int32
	}{{"unavailable", 3}, {"denied", 1}} {
		var asked atomic.Int32
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) > 2 {
				io.WriteString(w, "[]")
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, `{"code":429,"reason":%q,"message":"too much"}`, c.reason)
		})
		began := time.Now()
		_, err := List[contivmodel.Tenant](t.Context(), connectTo(t, Config{URLs: []string{url}}))
		if asked.Load() != c.asked || (err == nil) != (c.asked == 3) || err == nil && time.Since(began) < 2*time.Second {
			t.Errorf("%s: asked %d times in %s: %v", c.reason, asked.Load(), time.Since(began), err)
		}
	}
	always := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"code":429,"reason":"unavailable","message":"too much"}`)
	})
	c := connectTo(t, Config{URLs: []string{always}, Timeout: 1500 * time.Millisecond})
	if _, err := List[contivmodel.Tenant](t.Context(), c); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "too much") {
		t.Errorf("in vain: %v", err)
	}
}
