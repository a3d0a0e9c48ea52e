package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/owncert"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A follower accepts no secrets on plain connections either.
func TestAFollowerTakesNoSecretsOnPlainConnections(t *testing.T) {
	addr, p := served(t)
	follower := newProxy(holder(func() (string, error) { return addr, nil }), "127.0.0.1:1", p, testkit.Quiet())
	defer follower.transport.CloseIdleConnections()
	for path, want := range map[string]int{mastercfg.JoinPath: 403, mastercfg.JoinTokensPath + "/": 403, mastercfg.RenewPath: 200,
		logins.AuthPath + "/login": 403, logins.AuthPath + "/local_users/": 403, logins.AuthPath + "/tokens": 403} {
		r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
		r.RemoteAddr = "10.1.1.1:40000"
		r.Header.Set("Accept", "application/problem+json")
		w := httptest.NewRecorder()
		follower.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// CAs of another cluster, such as those left on a machine, are not used.
func TestAuthoritiesOfAnotherClusterAreNotUsed(t *testing.T) {
	storetest.Open(t)
	n, cfg := secured(t)
	if !n.daemon.certificates.hasAuthorities() {
		t.Error("its own are not used")
	}
	n.shut()
	others, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir = filepath.Join(t.TempDir(), "pki")
	if err := others.Save(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	n = run(t, func(c *Config) { c.Security = cfg })
	leader(t, n)
	if n.daemon.certificates.hasAuthorities() {
		t.Error("they are used")
	}
}

// A follower forwards over TLS, and the leader gets the client's identity. A leader that answers in plain text
// gets only requests that came over the network in plain text.
func TestAFollowerPassesOnWhoIsAsking(t *testing.T) {
	addr, p := served(t)
	plain := httptest.NewServer(named)
	defer plain.Close()
	plainly := plain.Listener.Addr().String()
	for name, c := range map[string]struct {
		leader, from string
		over         *tls.ConnectionState // of the client's connection
		code         int
		want         string
	}{
		"over TLS":           {addr, "", nil, 200, `node/h1 key=true tls=true header="" forwarded="" from=192.0.2.1`},
		"in plain text":      {plainly, "", nil, 200, `nobody key=false tls=false`},
		"what came over TLS": {plainly, "", new(tls.ConnectionState), 502, ""},
		"of this machine":    {plainly, "127.0.0.1:4000", nil, 502, ""},
	} {
		follower := newProxy(holder(func() (string, error) { return c.leader, nil }), "127.0.0.1:1", p, testkit.Quiet())
		r := httptest.NewRequest("GET", "/x", nil)
		r.TLS = c.over
		if c.from != "" {
			r.RemoteAddr = c.from
		}
		r = r.WithContext(identity.With(r.Context(), identity.Identity{Kind: identity.Node, Name: "h1", KeyHash: "abcd"}))
		w := httptest.NewRecorder()
		follower.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		follower.transport.CloseIdleConnections()
	}
}

// A follower without CAs cannot verify a leader: it does not forward requests with a secret that were protected on
// their way to it, as they would not be beyond it. Requests without secrets are forwarded, as in an open cluster.
func TestAFollowerWithoutAuthoritiesSendsNoSecretInPlainText(t *testing.T) {
	var reached atomic.Int64
	leader := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer leader.Close()
	follower := newProxy(holder(func() (string, error) { return leader.Listener.Addr().String(), nil }), "127.0.0.1:1", new(certificates), testkit.Quiet())
	defer follower.transport.CloseIdleConnections()
	ways := map[string]func(r *http.Request) *http.Request{
		"over TLS":      func(r *http.Request) *http.Request { r.TLS = new(tls.ConnectionState); return r },
		"from loopback": func(r *http.Request) *http.Request { r.RemoteAddr = "127.0.0.1:4000"; return r },
		"by root's socket": func(r *http.Request) *http.Request {
			return r.WithContext(identity.With(r.Context(), identity.Identity{Kind: identity.Root}))
		},
	}
	for name, c := range map[string]struct {
		method, path, header string
		code                 int
	}{
		"login":                      {"POST", logins.AuthPath + "/login/", "", 502},
		"unclean":                    {"POST", "/" + logins.AuthPath + "//login/", "", 502},
		"user create":                {"POST", logins.AuthPath + "/local_users", "", 502},
		"password":                   {"PATCH", logins.AuthPath + "/local_users/ann", "", 502},
		"token":                      {"GET", "/api/v1/tenants/", "X-Auth-Token", 502},
		"bearer":                     {"GET", "/api/v1/tenants/", "Authorization", 502},
		"without secrets":            {"GET", "/api/v1/tenants/", "", 200},
		"token where nobody has one": {"GET", "/api/v1/tenants/", "X-Auth-Token", 200},
	} {
		follower.mode = nil
		if strings.Contains(name, "nobody has one") {
			follower.mode = func() mastercfg.SecurityMode { return mastercfg.SecurityOpen }
		}
		for way, over := range ways {
			before := reached.Load()
			r := over(httptest.NewRequest(c.method, "http://m1"+c.path, strings.NewReader("{}")))
			if c.header != "" {
				r.Header.Set(c.header, "secret")
			}
			w := httptest.NewRecorder()
			follower.ServeHTTP(w, r)
			if sent := reached.Load() > before; w.Code != c.code || sent != (c.code == 200) {
				t.Errorf("%s %s: %d %s, and the leader has got it: %t", name, way, w.Code, w.Body, sent)
			}
		}
	}
}

// A netmaster with three listeners ends, although by then no goroutine receives the results of the listeners.
func TestANetmasterWithThreeListenersEnds(t *testing.T) {
	storetest.Open(t)
	n := run(t, func(c *Config) {
		c.Control = testkit.FreeAddress()
		c.Security.Socket = filepath.Join(t.TempDir(), "netmaster.sock")
	})
	leader(t, n)
	n.shut()
}

// A follower drops the CAs that it has made itself if another netmaster has founded the cluster meanwhile.
func TestAFollowerDropsAuthoritiesOfAnotherCluster(t *testing.T) {
	_, p := served(t)
	own := p.authorities().Cluster()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	named := make(chan string, 1)
	go func() {
		defer close(ended)
		p.Run(ctx, func(ctx context.Context) (string, error) {
			select {
			case cluster := <-named:
				return cluster, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	named <- own + "x"
	testkit.Eventually(t, 20*time.Second, "they are dropped", func() bool { return !p.hasAuthorities() })
}

// A machine whose clock is not set yet starts without certificates, and makes them later.
func TestANetmasterStartsBeforeItsClockIsRight(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	all, err := pki.NewCluster(time.Now().Add(48 * time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Save(dir); err != nil {
		t.Fatal(err)
	}
	p, err := newCertificates(Security{Dir: dir, Name: "m1"}, testkit.Quiet())
	if err != nil || p.hasAuthorities() {
		t.Fatalf("has certificates: %t, %v", p.hasAuthorities(), err)
	}
	if p.unsigned.Cluster() != all.Cluster() {
		t.Error("does not try again")
	}
}

func TestDamagedAuthoritiesAreRefusedWithTheRemedy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	all, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "client-ca.key"), 20); err != nil {
		t.Fatal(err)
	}
	_, err = newCertificates(Security{Dir: dir, Name: "m1"}, testkit.Quiet())
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "move its api-ca.crt away") {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "api-ca.crt")); err != nil {
		t.Fatal(err)
	}
	if c, err := newCertificates(Security{Dir: dir, Name: "m1"}, testkit.Quiet()); err != nil || !c.noneOnDisk() {
		t.Errorf("after what the error says: %v", err)
	}
}

// The operator's certificate is presented to clients that dial its name, the cluster's to nodes and netmasters,
// which dial addresses.
func TestACertificateOfOnesOwnIsShownForItsName(t *testing.T) {
	_, p := served(t)
	others, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := owncert.Files{Cert: filepath.Join(dir, "own.crt"), Key: filepath.Join(dir, "own.key")}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	own, err := others[pki.API].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Master, Name: "own"}, Use: x509.ExtKeyUsageServerAuth, Key: key.Public(), Names: []string{"net.example"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{files.Cert: pki.EncodeCertificates(own), files.Key: text} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := newCertificates(Security{Own: files}, testkit.Quiet())
	if err != nil || !alone.serves() || alone.hasAuthorities() {
		t.Fatalf("without authorities: %v", err)
	}
	p.own = alone.own
	for _, c := range []struct {
		certificates *certificates
		name         string
		own          bool
	}{{p, "net.example", true}, {p, "", false}, {p, "localhost", false}, {alone, "net.example", true}, {alone, "", true}, {alone, "other.example", true}} {
		shown, err := c.certificates.server().GetCertificate(&tls.ClientHelloInfo{ServerName: c.name})
		if err != nil || shown.Leaf.Equal(own) != c.own {
			t.Errorf("%q, with authorities: %t: %v", c.name, c.certificates.hasAuthorities(), err)
		}
	}
}

// A certificate that an operator's CA has signed is refused for what is wrong with it, not for its CA.
func TestACertificateOfTheOperatorsCAIsRefusedForWhatIsWrongWithIt(t *testing.T) {
	_, p := served(t)
	operators, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files := owncert.Files{ClientCA: filepath.Join(t.TempDir(), "users-ca.crt")}
	if err := os.WriteFile(files.ClientCA, pki.EncodeCertificates(operators[pki.Client].Bundle()...), 0o600); err != nil {
		t.Fatal(err)
	}
	beside, err := newCertificates(Security{Own: files}, testkit.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	p.own = beside.own
	who, client, later := identity.Identity{Kind: identity.User, Name: "alice"}, x509.ExtKeyUsageClientAuth, time.Now().AddDate(5, 0, 0)
	for name, try := range map[string]struct {
		shown tls.Certificate
		at    time.Time
		want  string
	}{
		"in no line":                 {certificate(t, operators[pki.Client], who, client, time.Now()), time.Now(), "no line of --client-cert-map has key:"},
		"of another of its CAs":      {certificate(t, operators[pki.API], who, client, time.Now()), time.Now(), "not signed by an authority"},
		"of the cluster, for others": {certificate(t, p.authorities()[pki.Client], who, x509.ExtKeyUsageServerAuth, time.Now()), time.Now(), "usage"},
		"of the operator, expired":   {certificate(t, operators[pki.Client], who, client, time.Now()), later, "expired"},
	} {
		if got, err := p.Verify([]*x509.Certificate{try.shown.Leaf}, try.at); err == nil || !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, try.want)
		}
	}
}

// An agent is known by the name in its certificate, wherever it is; neither another node nor
// a netmaster answers in its place.
func TestAnAgentIsKnownByItsName(t *testing.T) {
	addr, p := served(t)
	all := p.authorities()
	node := certificate(t, all[pki.Client], identity.Identity{Kind: identity.Node, Name: "h1"}, x509.ExtKeyUsageServerAuth, time.Now())
	server := httptest.NewUnstartedServer(named)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{node}}
	server.StartTLS()
	defer server.Close()
	key := pki.KeyHash(node.Leaf)
	for name, c := range map[string]struct{ host, key, at, reason string }{
		"the node":                  {"h1", key, server.Listener.Addr().String(), ""},
		"another node":              {"h2", key, server.Listener.Addr().String(), "node/h1 answers in the place of node h2"},
		"a former node of its name": {"h1", "another", server.Listener.Addr().String(), "node h1 answers with a key that its name does not belong to"},
		"one that nobody may be":    {"h1", "", server.Listener.Addr().String(), "node h1 answers with a key"},
		"a netmaster":               {"h1", key, addr, "not signed by an authority"},
	} {
		conn, err := tls.Dial("tcp", c.at, p.node(c.host, c.key))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nor does a client of netmasters accept a node as one.
	if conn, err := tls.Dial("tcp", server.Listener.Addr().String(), p.dialer()); err == nil {
		conn.Close()
		t.Error("a node is taken for a netmaster")
	}
}
