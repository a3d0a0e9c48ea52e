package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// founding runs the first netmaster of a cluster, to be founded in a mode.
func founding(t *testing.T, change ...func(*Security)) (n *node, cfg Security) {
	t.Helper()
	dir := t.TempDir()
	cfg = Security{Dir: filepath.Join(dir, "pki"), Name: "m1", Socket: filepath.Join(dir, "run", "netmaster.sock")}
	for _, c := range change {
		c(&cfg)
	}
	n = run(t, func(c *Config) { c.Security = cfg })
	leader(t, n)
	return n, cfg
}

func in(mode mastercfg.SecurityMode) func(*Security) { return func(s *Security) { s.Founding = mode } }

// security returns root's view of the mode.
func (n *node) security(cfg Security) string {
	n.Helper()
	_, answer := exchange(n.TB.(*testing.T), overSocket(n.TB.(*testing.T), cfg.Socket), "GET", "http://localhost"+mastercfg.SecurityPath, "")
	return answer
}

// A new cluster gets the mode configured for its first leader; later starts do not change it.
func TestOnlyANewClusterGetsTheModeOfItsFounding(t *testing.T) {
	storetest.Open(t)
	n, cfg := founding(t)
	if said := n.security(cfg); !strings.Contains(said, `"open"`) {
		t.Errorf("founded open: %s", said)
	}
	n.shut()
	n, cfg = founding(t, in(mastercfg.SecurityEnforced))
	if said := n.security(cfg); !strings.Contains(said, `"open"`) {
		t.Errorf("an upgrade has closed a cluster: %s", said)
	}
	n.shut()
	n, cfg = founding(t, in(mastercfg.SecurityEnforced), func(s *Security) { s.Secure = true })
	if said := n.security(cfg); !strings.Contains(said, `"permissive"`) {
		t.Errorf("one of before that is told to be secure: %s", said)
	}
	n.shut()
	storetest.Open(t) // empty again
	n, cfg = founding(t, in(mastercfg.SecurityEnforced))
	if said := n.security(cfg); !strings.Contains(said, `"enforced"`) {
		t.Errorf("founded enforced: %s", said)
	}
	n.shut()
	n, cfg = founding(t, func(s *Security) { s.Dir = cfg.Dir })
	if said := n.security(cfg); !strings.Contains(said, `"enforced"`) {
		t.Errorf("another start has opened a cluster: %s", said)
	}
}

// An open cluster on a machine with CAs from before uses TLS, but still creates no token. A token created by an
// earlier version ends when the cluster is secured.
func TestAnOpenClusterWithAuthoritiesGivesNobodyAToken(t *testing.T) {
	db := storetest.Open(t)
	before, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pki")
	if err := before.Save(dir); err != nil {
		t.Fatal(err)
	}
	n, _ := founding(t, func(s *Security) { s.Dir = dir })
	client := clientOf(t, []*x509.Certificate{before[pki.API].Certificate})
	if code, answer := exchange(t, client, "POST", "https://"+n.addr+mastercfg.JoinTokensPath, `{"role":"master","ttl":"8760h"}`); code != http.StatusConflict || !strings.Contains(answer, "netctl security init") {
		t.Errorf("%d %s", code, answer)
	}
	n.shut()
	const given = mastercfg.JoinTokenPrefix + "given"
	etcd, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Put(t.Context(), given, "{}"); err != nil {
		t.Fatal(err)
	}
	n, cfg := founding(t, func(s *Security) { s.Dir, s.Secure = dir, true })
	if said := n.security(cfg); !strings.Contains(said, `"permissive"`) {
		t.Error(said)
	}
	if kv, err := db.Get(t.Context(), given); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still good: %s, %v", kv.Value, err)
	}
}

// In an enforced cluster the answer to plain HTTP names the right address, at once after the step.
func TestPlainRequestsAreRefusedInAnEnforcedCluster(t *testing.T) {
	storetest.Open(t)
	n, cfg := founding(t, in(mastercfg.SecurityEnforced))
	all, err := pki.Load(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	plainly, encrypted := clientOf(t, nil), clientOf(t, []*x509.Certificate{all[pki.API].Certificate})
	refused := func(path string) bool {
		code, answer := exchange(t, plainly, "GET", n.url+path, "")
		return code == http.StatusForbidden && strings.Contains(answer, "https://"+n.addr)
	}
	for _, path := range []string{"/version", "/metrics", "/api/v1/tenants/", mastercfg.AuthorityPath, "/nowhere"} {
		if !refused(path) {
			t.Errorf("%s is served over plain HTTP", path)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, answer := exchange(t, plainly, "GET", n.url+path, ""); code != http.StatusOK {
			t.Errorf("on loopback, %s: %d %s", path, code, answer)
		}
	}
	if code, answer := exchange(t, encrypted, "GET", "https://"+n.addr+"/version", ""); code != http.StatusOK {
		t.Errorf("over TLS: %d %s", code, answer)
	}
	if code, _ := exchange(t, encrypted, "GET", "https://"+n.addr+"/api/v1/tenants/", ""); code != http.StatusUnauthorized {
		t.Errorf("nobody over TLS: %d", code)
	}
	root := overSocket(t, cfg.Socket)
	if code, answer := exchange(t, root, "GET", "http://localhost/api/v1/tenants/", ""); code != http.StatusOK {
		t.Errorf("root: %d %s", code, answer)
	}
	if code, answer := exchange(t, root, "POST", "http://localhost"+mastercfg.SecurityPath+"/relax", ""); code != http.StatusOK {
		t.Fatalf("relax: %d %s", code, answer)
	}
	testkit.Eventually(t, 20*time.Second, "plain HTTP is served again", func() bool {
		code, _ := exchange(t, plainly, "GET", n.url+"/api/v1/tenants/", "")
		return code == http.StatusOK
	})
	if code, answer := exchange(t, root, "POST", "http://localhost"+mastercfg.SecurityPath+"/enforce", ""); code != http.StatusOK {
		t.Fatalf("enforce: %d %s", code, answer)
	}
	testkit.Eventually(t, 20*time.Second, "it is refused again", func() bool { return refused("/api/v1/tenants/") })
}

// A netmaster that reaches the store on loopback founds no enforced cluster there if the store is reachable from
// elsewhere, too: it ends, and has written nothing.
func TestNoEnforcedClusterIsFoundedOnAStoreThatIsExposed(t *testing.T) {
	db := storetest.Open(t)
	storetest.MovePeer(t, "http://192.0.2.9:2380")
	cfg := config(testkit.FreeAddress())
	cfg.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Founding: mastercfg.SecurityEnforced, Name: "m1"}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Run(ctx); !errors.As(err, new(StoreExposed)) || !strings.Contains(err.Error(), "http://192.0.2.9:2380") || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
	if kvs, _, err := db.List(t.Context(), mastercfg.GlobalRoot); err != nil || len(kvs) > 0 {
		t.Errorf("%d keys, %v", len(kvs), err)
	}
}

// An open cluster gets its CAs while it serves.
func TestAnOpenClusterGetsAuthoritiesWhileItServes(t *testing.T) {
	storetest.Open(t)
	n, cfg := founding(t)
	if code, answer := exchange(t, clientOf(t, nil), "POST", n.url+mastercfg.SecurityPath+"/init", ""); code != http.StatusOK || !strings.Contains(answer, `"permissive"`) {
		t.Fatalf("%d %s", code, answer)
	}
	all, err := pki.Load(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, []*x509.Certificate{all[pki.API].Certificate})
	for _, url := range []string{"https://" + n.addr, n.url} {
		if code, answer := exchange(t, client, "GET", url+"/api/v1/tenants/", ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", url, code, answer)
		}
	}
	testkit.Eventually(t, 20*time.Second, "it is registered with them", func() bool {
		kvs, err := n.daemon.db.Services(t.Context(), mastercfg.MasterService)
		return err == nil && len(kvs) == 1 && kvs[0].Authorities == all.Hash()
	})
}

// The address of the client counts, not what it claims.
func TestWhatAModeMeansForConnections(t *testing.T) {
	for name, c := range map[string]struct {
		mode       mastercfg.SecurityMode
		role       string // of loopback
		from, path string
		code       int
		want       string
	}{
		"open":                            {mastercfg.SecurityOpen, "", "10.1.1.1:1", "/x", 200, "nobody"},
		"not known yet":                   {"", "", "10.1.1.1:1", "/x", 503, "does not know yet"},
		"not known yet, on loopback":      {"", "", "127.0.0.1:1", "/x", 503, "does not know yet"},
		"not known yet, health":           {"", "", "10.1.1.1:1", "/healthz", 200, "nobody"},
		"permissive":                      {mastercfg.SecurityPermissive, "", "10.1.1.1:1", "/x", 200, "nobody"},
		"enforced":                        {mastercfg.SecurityEnforced, "", "10.1.1.1:1", "/x", 403, "https://m1:9999"},
		"enforced, on loopback":           {mastercfg.SecurityEnforced, "", "127.0.0.1:1", "/x", 403, "https://m1:9999"},
		"enforced, health from elsewhere": {mastercfg.SecurityEnforced, "", "10.1.1.1:1", "/healthz", 403, ""},
		"enforced, health on loopback":    {mastercfg.SecurityEnforced, "", "[::1]:1", "/healthz", 200, "nobody"},
		"a role, on loopback":             {mastercfg.SecurityEnforced, "viewer", "127.0.0.1:1", "/x", 200, "loopback/viewer"},
		"a role, from elsewhere":          {mastercfg.SecurityEnforced, "viewer", "10.1.1.1:1", "/x", 403, ""},
		"a role, on loopback, while open": {mastercfg.SecurityOpen, "viewer", "127.0.0.1:1", "/x", 200, "loopback/viewer"},
	} {
		synctest.Test(t, func(t *testing.T) { // one whose mode stays unknown waits for it
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", c.path, nil)
			r.RemoteAddr, r.Host = c.from, "m1:9999"
			knownAs(c.mode).requireTLS(named, c.role, nil).ServeHTTP(w, r)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, c.code, c.want)
			}
		})
	}
}

// knownAs returns a mode that a netmaster knows; empty: it does not know it yet.
func knownAs(is mastercfg.SecurityMode) *mode {
	m := newMode(testkit.Quiet())
	if is != "" {
		m.set(is)
	}
	return m
}

// A netmaster that has just started learns the mode within milliseconds; requests meanwhile wait.
func TestAPlainRequestWaitsForTheMode(t *testing.T) {
	for is, want := range map[mastercfg.SecurityMode]int{mastercfg.SecurityOpen: 200, mastercfg.SecurityEnforced: 403} {
		synctest.Test(t, func(t *testing.T) {
			m := newMode(testkit.Quiet())
			learned := time.AfterFunc(patience/2, func() { m.set(is) })
			defer learned.Stop()
			w := httptest.NewRecorder()
			m.requireTLS(named, "", nil).ServeHTTP(w, httptest.NewRequest("POST", "/x", nil))
			if w.Code != want {
				t.Errorf("%s: %d %s, want %d", is, w.Code, w.Body, want)
			}
		})
	}
}

// Only a follower can tell the leader that a request came over plain HTTP.
func TestTheLeaderHearsThatARequestWasPlain(t *testing.T) {
	addr, p := served(t)
	all := p.authorities()
	roots := []*x509.Certificate{all[pki.API].Certificate}
	client := x509.ExtKeyUsageClientAuth
	m1, h1 := identity.Identity{Kind: identity.Master, Name: "m1"}, identity.Identity{Kind: identity.Node, Name: "h1"}
	for name, c := range map[string]struct {
		who  identity.Identity
		want string
	}{"a netmaster": {m1, "plain=true"}, "a node": {h1, "plain=false"}} {
		req, err := http.NewRequest("GET", "https://"+addr+"/who", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(identityHeader, "nobody")
		req.Header.Set(plainHeader, "true")
		resp, err := clientOf(t, roots, certificate(t, all[pki.Client], c.who, client, time.Now())).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(answer), c.want) {
			t.Errorf("%s: %s, %v; want %s", name, answer, err, c.want)
		}
	}
}

// A request that a follower forwards over TLS counts as private only if the follower received it so, or from its
// own machine.
func TestTheLeaderHearsWhetherOthersCouldReadARequest(t *testing.T) {
	addr, p := served(t)
	proxy := newProxy(holder(func() (string, error) { return addr, nil }), "127.0.0.1:1", p, testkit.Quiet())
	defer proxy.transport.CloseIdleConnections()
	follower := knownAs(mastercfg.SecurityPermissive).requireTLS(proxy, "", nil)
	for name, c := range map[string]struct {
		from string
		over *tls.ConnectionState
		who  identity.Kind
		want string
	}{
		"plain":            {"192.0.2.1:4000", nil, identity.Nobody, "plain=true private=false"},
		"TLS":              {"192.0.2.1:4000", new(tls.ConnectionState), identity.Nobody, "plain=false private=true"},
		"its own loopback": {"127.0.0.1:4000", nil, identity.Nobody, "plain=true private=true"},
		"its socket":       {"@", nil, identity.Root, "plain=false private=true"},
	} {
		r := httptest.NewRequest("GET", "/who", nil)
		r.RemoteAddr, r.TLS = c.from, c.over
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		w := httptest.NewRecorder()
		follower.ServeHTTP(w, r.WithContext(identity.With(r.Context(), identity.Identity{Kind: c.who})))
		if !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %s", name, w.Code, w.Body, c.want)
		}
	}
}
