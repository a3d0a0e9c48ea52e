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
	"slices"
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

// cluster is a minimal netmaster: it signs all requests.
type cluster struct {
	testing.TB
	by       pki.Authorities
	address  string
	lose     atomic.Bool  // the answer to the next join
	joins    atomic.Int32 // requests that came with a token
	renewals atomic.Int32
	removed  atomic.Bool              // renewals are refused until the node has joined again
	useless  atomic.Pointer[string]   // hash of a key that was taken back
	keys     atomic.Pointer[string]   // of the last node that joined
	joinedAt atomic.Pointer[[]string] // tunnel ends of the last node that joined
	present  atomic.Pointer[pki.Authorities]
	ahead    atomic.Int64 // its clock, as a duration
}

func start(t testing.TB) *cluster {
	t.Helper()
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, by)
}

// startWith is start with CAs that there are.
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
		c.joinedAt.Store(&request.VTEPs)
		c.sign(w, request.Host, request.CSR, false)
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
		at := c.joinedAt.Load()
		c.sign(w, request.Host, request.CSR, at != nil && !slices.Equal(*at, request.VTEPs))
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

func (c *cluster) sign(w http.ResponseWriter, host string, csr []byte, elsewhere bool) {
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
	signed, err := by[pki.Client].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Node, Name: host}, Use: x509.ExtKeyUsageClientAuth, Key: key}, time.Now().Add(time.Duration(c.ahead.Load())))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(mastercfg.JoinResponse{Cluster: c.by.Cluster(), Certificate: string(pki.EncodeCertificates(signed)),
		Authorities: string(pki.EncodeCertificates(by[pki.API].Bundle()...)), Clients: string(pki.EncodeCertificates(by[pki.Client].Bundle()...)), Elsewhere: elsewhere})
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

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
