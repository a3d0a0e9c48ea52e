package membership

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// cluster is a netmaster in small: it signs what it is asked to.
type cluster struct {
	testing.TB
	by       pki.Authorities
	address  string
	lose     atomic.Bool  // the answer to the next join
	joins    atomic.Int32 // requests that came with a token
	renewals atomic.Int32
	removed  atomic.Bool            // who asks to renew is refused until it has joined anew
	useless  atomic.Pointer[string] // hash of a key that was taken back
	keys     atomic.Pointer[string] // of the last who joined
	present  atomic.Pointer[pki.Authorities]
}

func start(t testing.TB) *cluster {
	t.Helper()
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, by)
}

// startWith is start with authorities that there are.
func startWith(t testing.TB, by pki.Authorities) *cluster {
	t.Helper()
	c := &cluster{TB: t, by: by}
	c.present.Store(&by)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+mastercfg.AuthorityPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(mastercfg.Authority{Authorities: string(pki.EncodeCertificates((*c.present.Load())[pki.API].Bundle()...))})
	})
	mux.HandleFunc("POST "+mastercfg.JoinPath, func(w http.ResponseWriter, r *http.Request) {
		var request mastercfg.JoinRequest
		_ = json.NewDecoder(r.Body).Decode(&request)
		c.joins.Add(1)
		if c.takenBack(w, request.CSR) {
			return
		}
		c.removed.Store(false)
		c.sign(w, request.Host, request.CSR)
	})
	mux.HandleFunc("POST "+mastercfg.RenewPath, func(w http.ResponseWriter, r *http.Request) {
		var request mastercfg.RenewRequest
		_ = json.NewDecoder(r.Body).Decode(&request)
		c.renewals.Add(1)
		if c.takenBack(w, request.CSR) {
			return
		}
		if c.removed.Load() {
			refuse(w, fault.New(fault.Denied, "node h1 was away"))
			return
		}
		c.sign(w, request.Host, request.CSR)
	})
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	own, err := by[pki.API].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Master, Name: "m1"}, Use: x509.ExtKeyUsageServerAuth, Key: key.Public(),
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{own.Raw}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	c.address = server.Listener.Addr().String()
	return c
}

// takenBack refuses a key that was taken back.
func (c *cluster) takenBack(w http.ResponseWriter, csr []byte) bool {
	key, err := pki.ReadRequest(csr)
	if err != nil {
		return false
	}
	hash, err := pki.PublicKeyHash(key)
	useless := c.useless.Load()
	if err != nil || useless == nil || *useless != hash {
		return false
	}
	refuse(w, fault.New(fault.Denied, "the key was taken back").WithField(mastercfg.KeyField))
	return true
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", fault.ProblemType)
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(fault.ProblemOf(err, http.StatusForbidden))
}

func (c *cluster) sign(w http.ResponseWriter, host string, csr []byte) {
	key, err := pki.ReadRequest(csr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	hash, err := pki.PublicKeyHash(key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c.keys.Store(&hash)
	if c.lose.Swap(false) {
		panic(http.ErrAbortHandler)
	}
	by := *c.present.Load()
	signed, err := by[pki.Client].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Node, Name: host}, Use: x509.ExtKeyUsageClientAuth, Key: key}, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(mastercfg.JoinResponse{Cluster: c.by.Cluster(), Certificate: string(pki.EncodeCertificates(signed)),
		Authorities: string(pki.EncodeCertificates(by[pki.API].Bundle()...)), Clients: string(pki.EncodeCertificates(by[pki.Client].Bundle()...))})
}

// config is that of a node with a token for the cluster with the pin.
func (c *cluster) config(pin string) Config {
	c.Helper()
	token, err := jointoken.New(pin)
	if err != nil {
		c.Fatal(err)
	}
	dir := c.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(token.Text()+"\n"), 0o600); err != nil {
		c.Fatal(err)
	}
	return Config{Dir: filepath.Join(dir, "pki"), TokenFile: file, Host: "h1", Log: testkit.Quiet(),
		Masters: func(context.Context) ([]string, error) { return []string{c.address}, nil }}
}

func (c *cluster) pin() string { return pki.KeyHash(c.by[pki.API].Certificate) }

func open(t testing.TB, cfg Config) *Member {
	t.Helper()
	m, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestANodeJoinsOnceAndIsTheSameAfterARestart(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	m := open(t, cfg)
	if m.TLS() != nil {
		t.Error("TLS before the node has joined")
	}
	if err := m.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(cfg.TokenFile); err != nil {
		t.Fatal(err)
	}
	again := open(t, cfg)
	if again.TLS() == nil || !again.key.Equal(m.key) {
		t.Fatal("the node has forgotten who it is")
	}
	if least := again.TLS().MinVersion; least != tls.VersionTLS13 {
		t.Errorf("netmasters are talked to by %s", tls.VersionName(least))
	}
	if err := again.renew(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{keyFile, certificateFile, AuthorityFile} {
		if info, err := os.Stat(filepath.Join(cfg.Dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if c.joins.Load() != 1 {
		t.Errorf("%d joins", c.joins.Load())
	}
}

// A node that did not hear the answer asks again with the same key, also as another process.
func TestALostAnswerIsAskedForWithTheSameKey(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	c.lose.Store(true)
	if err := open(t, cfg).join(t.Context()); err == nil {
		t.Fatal("the answer came")
	}
	first := *c.keys.Load()
	m := open(t, cfg)
	if err := m.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if *c.keys.Load() != first {
		t.Error("with another key")
	}
}

// A token that somebody else vouches for is shown to who has the authorities that the node was
// given, and to nobody else.
func TestAVouchedTokenIsShownToTheKnownAuthorities(t *testing.T) {
	c, others := start(t), start(t)
	cfg := c.config(c.pin())
	if err := os.WriteFile(cfg.TokenFile, []byte("a.b.c\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	cfg.AuthoritiesFile = filepath.Join(t.TempDir(), "authorities.crt")
	for by, joins := range map[*cluster]bool{others: false, c: true} {
		if err := os.WriteFile(cfg.AuthoritiesFile, pki.EncodeCertificates(by.by[pki.API].Certificate), 0o600); err != nil {
			t.Fatal(err)
		}
		before := c.joins.Load()
		if err := open(t, cfg).join(t.Context()); (err == nil) != joins || c.joins.Load() > before != joins {
			t.Errorf("want that it joins: %v; %v, %d joins", joins, err, c.joins.Load())
		}
	}
}

// Whoever else answers hears nothing of the token.
func TestTheTokenIsNotShownToAnotherCluster(t *testing.T) {
	c, others := start(t), start(t)
	cfg := c.config(others.pin())
	err := open(t, cfg).join(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another pin") || c.joins.Load() != 0 {
		t.Errorf("%v, %d joins", err, c.joins.Load())
	}
	// Nor to who shows the authority, and has not its key.
	thief := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != mastercfg.AuthorityPath {
			t.Errorf("the thief is asked for %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(mastercfg.Authority{Authorities: string(pki.EncodeCertificates(c.by[pki.API].Certificate))})
	}))
	defer thief.Close()
	cfg = c.config(c.pin())
	cfg.Masters = func(context.Context) ([]string, error) { return []string{thief.Listener.Addr().String()}, nil }
	if err := open(t, cfg).join(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	// The next netmaster is asked.
	cfg.Masters = func(context.Context) ([]string, error) {
		return []string{thief.Listener.Addr().String(), c.address}, nil
	}
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRunJoinsAndRenews(t *testing.T) {
	c := start(t)
	m := open(t, c.config(c.pin()))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has joined and renewed", func() bool { return m.TLS() != nil && c.renewals.Load() > 0 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A node that was away for too long joins anew as soon as it is given a token.
func TestANodeThatMayNotRenewJoinsAnew(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := *c.keys.Load()
	c.removed.Store(true)
	without := cfg
	without.TokenFile = ""
	if err := open(t, without).joinAnew(t.Context(), fault.New(fault.Denied, "away")); err == nil || !strings.Contains(err.Error(), "away; to join anew it needs --join-token-file") {
		t.Errorf("without a token: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	again := open(t, cfg)
	go func() { ended <- again.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has joined anew", func() bool { return c.joins.Load() == 2 })
	stop()
	if err := <-ended; err != nil || *c.keys.Load() != first {
		t.Errorf("%v, another key: %t", err, *c.keys.Load() != first)
	}
}

// A node whose key was taken back joins with another one, whenever it hears of it, and keeps what it has until it has joined.
func TestANodeWhoseKeyWasTakenBackJoinsWithAnother(t *testing.T) {
	for name, hears := range map[string]func(*Member) error{
		"as it renews": func(m *Member) error { return m.joinAnew(t.Context(), m.renew(t.Context())) },
		"as it joins":  func(m *Member) error { return m.join(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			cfg := c.config(c.pin())
			if err := open(t, cfg).join(t.Context()); err != nil {
				t.Fatal(err)
			}
			first := *c.keys.Load()
			c.useless.Store(&first)
			c.lose.Store(true)
			if err := hears(open(t, cfg)); err == nil {
				t.Fatal("the answer came")
			}
			second := *c.keys.Load()
			if second == first {
				t.Fatal("with the same key")
			}
			m := open(t, cfg) // as the one that it was
			if now, err := pki.PublicKeyHash(&m.key.PublicKey); err != nil || now != first || m.TLS() == nil {
				t.Errorf("before it has joined: %v, the former key: %t", err, now == first)
			}
			if err := hears(m); err != nil || *c.keys.Load() != second {
				t.Errorf("%v, the key of the lost answer: %t", err, *c.keys.Load() == second)
			}
			again := open(t, cfg)
			if now, err := pki.PublicKeyHash(&again.key.PublicKey); err != nil || now != second || again.TLS() == nil {
				t.Errorf("after a restart: %v, the key that has joined: %t", err, now == second)
			}
			// Taken back before it was heard of: the next try has another one.
			c.useless.Store(&second)
			if err := os.WriteFile(filepath.Join(cfg.Dir, nextKeyFile), must(os.ReadFile(filepath.Join(cfg.Dir, keyFile))), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := hears(again); err == nil {
				t.Error("joined with a key that was taken back")
			}
			if err := hears(again); err != nil || *c.keys.Load() == second {
				t.Errorf("the next try: %v", err)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A node is told in no other way that the authorities are replaced than by asking for them;
// then it has a certificate of the one that signs, and knows who is believed, also after a restart.
func TestANodeFollowsWhenAuthoritiesAreReplaced(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	m := open(t, cfg)
	m.check = 10 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	testkit.Eventually(t, time.Minute, "the node has joined and renewed", func() bool { return m.Authorities() == c.by.Hash() && c.renewals.Load() > 0 })
	for by := c.by; by.Step() != pki.Drop; { // the last one would take another certificate of the server
		next, err := by.Next(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.present.Store(&next)
		testkit.Eventually(t, time.Minute, "the node knows the result of step "+string(by.Step()), func() bool { return m.Authorities() == next.Hash() })
		if err := m.held.Load().own.Leaf.CheckSignatureFrom(next[pki.Client].Certificate); err != nil {
			t.Errorf("after step %s its certificate is of another authority: %v", by.Step(), err)
		}
		by = next
	}
	testkit.Eventually(t, time.Minute, "it is written down", func() bool {
		again, err := Open(cfg)
		return err == nil && again.Authorities() == m.Authorities()
	})
}

// A node that was away while the authorities were replaced knows no netmaster any more. It says so, and
// joins anew as soon as it has a token of now, with the same key.
func TestANodeThatKnowsNoNetmasterAnyMoreJoinsAnew(t *testing.T) {
	before := start(t)
	cfg := before.config(before.pin())
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	by := before.by
	for range 3 {
		next, err := by.Next(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		by = next
	}
	c := startWith(t, by)
	cfg.Masters = func(context.Context) ([]string, error) { return []string{c.address}, nil }
	m := open(t, cfg)
	refused := strangers(m.renew(t.Context()))
	if !fault.Is(refused, fault.Denied) || !strings.Contains(refused.Error(), "replaced while it was away") {
		t.Errorf("without a token of now: %v", refused)
	}
	if err := m.joinAnew(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "another pin") || c.joins.Load() != 0 {
		t.Errorf("the former token is shown: %v", err)
	}
	cfg.TokenFile = c.config(c.pin()).TokenFile
	m = open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "it has joined anew", func() bool { return m.Authorities() == by.Hash() })
	stop()
	if err := <-ended; err != nil || *c.keys.Load() != *before.keys.Load() {
		t.Errorf("%v, keys %s and %s", err, *before.keys.Load(), *c.keys.Load())
	}
}

// The same is true of one that runs all the time, and was only not reached: it does not wait until its
// certificate is due.
func TestARunningNodeThatWasNotReachedForARotationJoinsAnew(t *testing.T) {
	before := start(t)
	cfg := before.config(before.pin())
	var address atomic.Pointer[string]
	address.Store(&before.address)
	cfg.Masters = func(context.Context) ([]string, error) { return []string{*address.Load()}, nil }
	m := open(t, cfg)
	m.check = 10 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has joined and renewed", func() bool { return m.TLS() != nil && before.renewals.Load() > 0 })
	by := before.by
	for range 3 {
		next, err := by.Next(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		by = next
	}
	c := startWith(t, by)
	text, err := os.ReadFile(c.config(c.pin()).TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.TokenFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	address.Store(&c.address)
	testkit.Eventually(t, time.Minute, "it has joined anew", func() bool { return m.Authorities() == by.Hash() })
	stop()
	if err := <-ended; err != nil || c.joins.Load() != 1 {
		t.Errorf("%v, %d joins", err, c.joins.Load())
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	c := start(t)
	for name, damage := range map[string]func(Config) error{
		"key cut off":            func(cfg Config) error { return os.Truncate(filepath.Join(cfg.Dir, keyFile), 50) },
		"key of somebody else":   func(cfg Config) error { return os.Remove(filepath.Join(cfg.Dir, keyFile)) },
		"key for others to read": func(cfg Config) error { return os.Chmod(filepath.Join(cfg.Dir, keyFile), 0o644) },
		"no certificate":         func(cfg Config) error { return os.Remove(filepath.Join(cfg.Dir, certificateFile)) },
		"certificate cut off":    func(cfg Config) error { return os.Truncate(filepath.Join(cfg.Dir, certificateFile), 50) },
		"authority cut off":      func(cfg Config) error { return os.Truncate(filepath.Join(cfg.Dir, AuthorityFile), 50) },
	} {
		cfg := c.config(c.pin())
		if err := open(t, cfg).join(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := damage(cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cfg); err == nil || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := c.config(c.pin())
	if err := os.Chmod(cfg.TokenFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(t, cfg).join(t.Context()); err == nil || !strings.Contains(err.Error(), "others can read") {
		t.Errorf("a token that others can read: %v", err)
	}
}
