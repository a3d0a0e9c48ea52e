package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// authority signs any certificate.
type authority struct {
	*testing.T
	of   *x509.Certificate
	key  crypto.Signer
	name string // of the cluster
}

// authorityIn returns a CA of a netmaster's directory.
func authorityIn(t *testing.T, dir string, role pki.Role) authority {
	t.Helper()
	all, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, string(role)+".crt"), filepath.Join(dir, string(role)+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return authority{t, all[role].Certificate, pair.PrivateKey.(crypto.Signer), all.Cluster()}
}

// another returns a CA of the same names with another, self-signed key.
func (a authority) another() authority {
	a.Helper()
	key := newKey(a.T)
	template := *a.of
	template.PublicKey = key.Public()
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		a.Fatal(err)
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return authority{a.T, own, key, a.name}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signs makes a valid certificate of node h1, except for the changes.
func (a authority) signs(change ...func(*x509.Certificate)) tls.Certificate {
	a.Helper()
	key := newKey(a.T)
	h1 := identity.Identity{Kind: identity.Node, Name: "h1"}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: h1.String()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		URIs: []*url.URL{h1.URI(a.name)},
	}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.of, key.Public(), a.key)
	if err != nil {
		a.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// showing returns a client with a source address that presents a certificate, whatever that is.
func (c *closedOne) showing(address string, shown tls.Certificate) *http.Client {
	client := c.from(address)
	config := client.Transport.(*http.Transport).TLSClientConfig
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	return client
}

// Invalid certificates, presented to a netmaster that is a process of its own. Each client has an address of its
// own, as not every refusal of one address is recorded.
func TestBadCertificatesOpenNothing(t *testing.T) {
	c := closed(t)
	dir := filepath.Join(c.dir, "pki")
	clients, servers, store := authorityIn(t, dir, pki.Client), authorityIn(t, dir, pki.API), authorityIn(t, dir, pki.Store)
	elsewhere, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	otherDir := filepath.Join(t.TempDir(), "pki")
	if err := elsewhere.Save(otherDir); err != nil {
		t.Fatal(err)
	}
	others := authorityIn(t, otherDir, pki.Client)

	named := func(format string, args ...any) func(*x509.Certificate) {
		u, err := url.Parse(fmt.Sprintf(format, args...))
		if err != nil {
			t.Fatal(err)
		}
		return func(c *x509.Certificate) { c.URIs = []*url.URL{u} }
	}
	usage := func(all ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = all }
	}
	large := func(c *x509.Certificate) { c.DNSNames = []string{strings.Repeat("a", 16<<10)} }
	good := clients.signs()
	chain := func(certs ...tls.Certificate) (all tls.Certificate) {
		all.PrivateKey = certs[0].PrivateKey
		for _, c := range certs {
			all.Certificate = append(all.Certificate, c.Certificate...)
		}
		return all
	}
	const inHandshake = "" // it is refused there
	for i, bad := range []struct {
		name  string
		shown tls.Certificate
		says  string
	}{
		{"none", tls.Certificate{}, "nobody says who is asking"},
		{"another cluster", others.signs(), "not signed by an authority of this cluster"},
		{"another cluster, with our name", others.signs(named("contiv://%s/node/h1", clients.name)), "not signed by an authority of this cluster"},
		{"the authority of servers", servers.signs(), "not signed by an authority of this cluster"},
		{"the authority of the store", store.signs(), "not signed by an authority of this cluster"},
		{"signed by itself", clients.another().signs(), "not signed by an authority of this cluster"},
		{"to serve", clients.signs(usage(x509.ExtKeyUsageServerAuth)), "incompatible key usage"},
		{"for every use", clients.signs(usage(x509.ExtKeyUsageAny)), "not say that it is for this use"},
		{"for no use", clients.signs(usage()), "not say that it is for this use"},
		{"named after another cluster", clients.signs(named("contiv://%s/node/h1", others.name)), "belongs to cluster"},
		{"another scheme", clients.signs(named("https://%s/node/h1", clients.name)), "want contiv://"},
		{"a name with a slash", clients.signs(named("contiv://%s/node/h1/h2", clients.name)), "want contiv://"},
		{"a name that is escaped", clients.signs(named("contiv://%s/node/%%681", clients.name)), "want contiv://"},
		{"root", clients.signs(named("contiv://%s/root/h1", clients.name)), "want contiv://"},
		{"the common name alone", clients.signs(func(c *x509.Certificate) { c.URIs = nil }), "it has 0 names"},
		{"two names", clients.signs(func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }), "it has 2 names"},
		{"of the future", clients.signs(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}), "it begins at"},
		{"expired", clients.signs(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "it expired at"},
		{"an authority", clients.signs(func(c *x509.Certificate) { c.IsCA = true }), "authority"},
		{"a chain of ten", chain(slices.Repeat([]tls.Certificate{good}, 10)...), "a chain of 10"},
		{"16 KiB of names", clients.signs(large), "at most 8192 are read"},
		{"behind one that is too large", chain(good, clients.signs(large)), "at most 8192 are read"},
		{"a node that has not joined", good, "node h1"},
		{"a user that there is not", clients.signs(named("contiv://%s/user/eve", clients.name)), "user eve"},
		{"the key of another", tls.Certificate{Certificate: good.Certificate, PrivateKey: newKey(t)}, inHandshake},
		{"half of one", tls.Certificate{Certificate: [][]byte{good.Certificate[0][:len(good.Certificate[0])/2]}, PrivateKey: good.PrivateKey}, inHandshake},
		{"nonsense", tls.Certificate{Certificate: [][]byte{[]byte("-----BEGIN CERTIFICATE-----")}, PrivateKey: good.PrivateKey}, inHandshake},
	} {
		from := fmt.Sprintf("127.0.1.%d", i+1)
		for _, ask := range []struct{ method, path, body string }{
			{http.MethodPost, "/api/v1/tenants/evil/", `{"tenantName":"evil"}`},
			{http.MethodGet, "/api/v1/tenants/", ""},
			{http.MethodGet, mastercfg.AuthoritiesPath, ""},
			{http.MethodPost, mastercfg.CreateEndpointPath, `{"TenantName":"blue","NetworkName":"web","ConfigEP":{"Container":"x","Host":"h1"}}`},
		} {
			code, answer, err := c.ask(c.showing(from, bad.shown), "", ask.method, ask.path, ask.body)
			if bad.says == inHandshake {
				if err == nil || !strings.Contains(err.Error(), "tls: ") {
					t.Errorf("%s: %s %s is answered with %d %s, %v", bad.name, ask.method, ask.path, code, answer, err)
				}
				continue
			}
			if err != nil || code != http.StatusUnauthorized && code != http.StatusForbidden || ask.path != mastercfg.AuthoritiesPath && !strings.Contains(answer, bad.says) {
				t.Errorf("%s: %s %s: %d %s, %v; want %q", bad.name, ask.method, ask.path, code, answer, err, bad.says)
			}
			c.tellsNoSecret(bad.name, answer)
		}
		if bad.says != inHandshake {
			c.hasWrittenDown(bad.name, from, bad.says)
		}
		if code, answer, err := c.ask(c.from("127.0.0.1"), "", http.MethodGet, "/readyz", ""); err != nil || code != http.StatusOK {
			t.Fatalf("after %s: %d %s, %v", bad.name, code, answer, err)
		}
	}
	if tenants := c.byRoot(http.MethodGet, "/api/v1/tenants/", ""); strings.Contains(tenants, "evil") {
		t.Errorf("there is a tenant more: %s", tenants)
	}
	if text, err := os.ReadFile(filepath.Join(c.dir, "audit.log")); err != nil {
		t.Error(err)
	} else {
		c.tellsNoSecret("the audit log", string(text))
	}
}

// hasWrittenDown waits for a line of the audit log about a refusal of a client at an address.
func (c *closedOne) hasWrittenDown(name, from, reason string) {
	c.Helper()
	var last []audit.Entry
	testkit.Eventually(c, 20*time.Second, name+" is written down: "+reason, func() bool {
		text, err := os.ReadFile(filepath.Join(c.dir, "audit.log"))
		if err != nil {
			c.Fatal(err)
		}
		last = nil
		for line := range strings.Lines(string(text)) {
			var e audit.Entry
			if json.Unmarshal([]byte(line), &e) == nil && e.Source == from && e.Key != mastercfg.AuthoritiesPath {
				last = append(last, e)
			}
		}
		return len(last) > 0
	})
	for _, e := range last {
		if e.Decision != audit.Denied || e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden || e.Key == "" || !strings.Contains(e.Reason, reason) {
			c.Errorf("%s: the line is %+v, want %q", name, e, reason)
		}
	}
}

// tellsNoSecret looks for the keys of the CAs.
func (c *closedOne) tellsNoSecret(name, text string) {
	c.Helper()
	keys, err := filepath.Glob(filepath.Join(c.dir, "pki", "*.key"))
	if err != nil || len(keys) == 0 {
		c.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, path := range keys {
		key, err := os.ReadFile(path)
		if err != nil {
			c.Fatal(err)
		}
		for line := range strings.Lines(string(key)) {
			if line = strings.TrimSpace(line); len(line) > 20 && strings.Contains(text, line) {
				c.Errorf("%s: it tells a line of %s: %s", name, filepath.Base(path), text)
			}
		}
	}
}
