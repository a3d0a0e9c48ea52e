package api

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
)

// joinBench is the API of a permissive cluster with CAs and a clock of its own. Requests to join or renew have no
// identity yet, all others are root's.
type joinBench struct {
	*bench
	by  pki.Authorities
	now atomic.Pointer[time.Time]
}

func startJoin(t *testing.T, change ...func(*Config)) *joinBench {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	by, err := pki.NewCluster(begin)
	if err != nil {
		t.Fatal(err)
	}
	j := &joinBench{by: by}
	j.now.Store(&begin)
	j.bench = start(t, func(c *Config) {
		c.Authorities = func() pki.Authorities { return by }
		c.Now = func() time.Time { return *j.now.Load() }
		for _, more := range change {
			more(c)
		}
	})
	j.mode(mastercfg.SecurityPermissive)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = new(tls.ConnectionState) // as set by the daemon
		if r.URL.Path != mastercfg.JoinPath && r.URL.Path != mastercfg.RenewPath {
			r = r.WithContext(identity.With(r.Context(), identity.Identity{Kind: identity.Root}))
		}
		j.api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	j.url = server.URL
	return j
}

func (j *joinBench) pass(d time.Duration) { later := j.now.Load().Add(d); j.now.Store(&later) }

// token creates a join token.
func (j *joinBench) token(request string) mastercfg.ShownJoinToken {
	j.Helper()
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal([]byte(j.ok("POST", mastercfg.JoinTokensPath, request)), &shown); err != nil {
		j.Fatal(err)
	}
	return shown
}

// machine is a host with a key.
type machine struct {
	name string
	key  *ecdsa.PrivateKey
	csr  []byte
}

func newMachine(t testing.TB, name string) machine {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	return machine{name, key, csr}
}

// join asks to join, and returns the answer or the refusal.
func (j *joinBench) join(m machine, token string) (mastercfg.JoinResponse, string) {
	j.Helper()
	return tryPlug[mastercfg.JoinResponse](j.bench, mastercfg.JoinPath, mastercfg.JoinRequest{Token: token, Host: m.name, CSR: m.csr, Addresses: []string{"10.0.0.1"}})
}

func (j *joinBench) renew(m machine) (mastercfg.JoinResponse, string) {
	j.Helper()
	return tryPlug[mastercfg.JoinResponse](j.bench, mastercfg.RenewPath, mastercfg.RenewRequest{Host: m.name, CSR: m.csr})
}

func (j *joinBench) renewAt(m machine, address string, vteps ...string) (mastercfg.JoinResponse, string) {
	j.Helper()
	return tryPlug[mastercfg.JoinResponse](j.bench, mastercfg.RenewPath, mastercfg.RenewRequest{Host: m.name, CSR: m.csr, Addresses: []string{address}, VTEPs: vteps})
}

// belongs fails unless a certificate is for a host, with the key of the host.
func (j *joinBench) belongs(answer mastercfg.JoinResponse, kind identity.Kind, m machine) {
	j.Helper()
	certs, err := pki.ParseCertificates([]byte(answer.Certificate))
	if err != nil {
		j.Fatal(err)
	}
	trust := pki.Trust{Cluster: j.by.Cluster(), Authorities: []*x509.Certificate{j.by[pki.Client].Certificate}, Use: x509.ExtKeyUsageClientAuth}
	who, err := trust.Verify(certs, *j.now.Load())
	if err != nil || who.Kind != kind || who.Name != m.name || !m.key.PublicKey.Equal(certs[0].PublicKey) {
		j.Errorf("the certificate is that of %s: %v", who, err)
	}
	if answer.Cluster != j.by.Cluster() || answer.Authorities != string(pki.EncodeCertificates(j.by[pki.API].Certificate)) {
		j.Errorf("cluster %s, authorities %s", answer.Cluster, answer.Authorities)
	}
}
