package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/utils/fault"
)

var (
	now  = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	node = identity.Identity{Kind: identity.Node, Name: "h1"}
)

func cluster(t testing.TB) Authorities {
	t.Helper()
	a, err := NewCluster(now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, a *Authority, leaf Leaf, at time.Time) *x509.Certificate {
	t.Helper()
	if leaf.Key == nil {
		leaf.Key = newKey(t).Public()
	}
	c, err := a.Sign(leaf, at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forge signs whatever is asked for.
func forge(t testing.TB, a *Authority, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: node.String()},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		URIs: []*url.URL{node.URI(a.Cluster)},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, newKey(t).Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func trust(a Authorities) Trust {
	return Trust{Cluster: a.Cluster(), Authorities: []*x509.Certificate{a[Client].Certificate}, Use: x509.ExtKeyUsageClientAuth}
}

func TestACertificateSaysWhoHasIt(t *testing.T) {
	ours := cluster(t)
	for _, who := range []identity.Identity{node, {Kind: identity.Master, Name: "m1"}, {Kind: identity.User, Name: "a@b.io"}} {
		c := sign(t, ours[Client], Leaf{Who: who, Use: x509.ExtKeyUsageClientAuth}, now)
		who.KeyHash = KeyHash(c)
		if hash, err := PublicKeyHash(c.PublicKey.(*ecdsa.PublicKey)); err != nil || hash != who.KeyHash {
			t.Errorf("hash of the key %s, of the certificate %s, %v", hash, who.KeyHash, err)
		}
		for _, at := range []time.Time{now, now.Add(-23 * time.Hour), now.Add(LeafLife - time.Second)} {
			if got, err := trust(ours).Verify([]*x509.Certificate{c}, at); err != nil || got != who {
				t.Errorf("%s at %s: %v, %v", who, at, got, err)
			}
		}
	}
}

func TestWhatIsNoCertificateOfSomebodyHere(t *testing.T) {
	ours, others := cluster(t), cluster(t)
	client := Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth}
	good := sign(t, ours[Client], client, now)
	self, err := newAuthority(Client, ours.Cluster(), 1, now)
	if err != nil {
		t.Fatal(err)
	}
	named := func(text string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = []*url.URL{u}
		}
	}
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		says  string
	}{
		"none":                         {nil, "none was shown"},
		"another cluster":              {[]*x509.Certificate{sign(t, others[Client], client, now)}, "not signed by an authority of this cluster"},
		"the authority of servers":     {[]*x509.Certificate{sign(t, ours[API], client, now)}, "not signed by an authority"},
		"the authority of the store":   {[]*x509.Certificate{sign(t, ours[Store], client, now)}, "not signed by an authority"},
		"to serve":                     {[]*x509.Certificate{sign(t, ours[Client], Leaf{Who: node, Use: x509.ExtKeyUsageServerAuth}, now)}, "incompatible key usage"},
		"for every use":                {[]*x509.Certificate{forge(t, ours[Client], func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} })}, "not say that it is for this use"},
		"for no use":                   {[]*x509.Certificate{forge(t, ours[Client], func(c *x509.Certificate) { c.ExtKeyUsage = nil })}, "not say that it is for this use"},
		"named after another cluster":  {[]*x509.Certificate{forge(t, ours[Client], named("contiv://"+others.Cluster()+"/node/h1"))}, "belongs to cluster"},
		"another scheme":               {[]*x509.Certificate{forge(t, ours[Client], named("https://"+ours.Cluster()+"/node/h1"))}, "want contiv://"},
		"a name with a slash":          {[]*x509.Certificate{forge(t, ours[Client], named("contiv://"+ours.Cluster()+"/node/h1/h2"))}, "want contiv://"},
		"a name that is escaped":       {[]*x509.Certificate{forge(t, ours[Client], named("contiv://"+ours.Cluster()+"/node/%681"))}, "want contiv://"},
		"root":                         {[]*x509.Certificate{forge(t, ours[Client], named("contiv://"+ours.Cluster()+"/root/h1"))}, "want contiv://"},
		"the common name alone":        {[]*x509.Certificate{forge(t, ours[Client], func(c *x509.Certificate) { c.URIs = nil })}, "it has 0 names"},
		"two names":                    {[]*x509.Certificate{forge(t, ours[Client], func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) })}, "it has 2 names"},
		"of the future":                {[]*x509.Certificate{sign(t, ours[Client], client, now.Add(LeafLife))}, "it begins at"},
		"expired":                      {[]*x509.Certificate{forge(t, ours[Client], func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) })}, "it expired at"},
		"an authority of that name":    {[]*x509.Certificate{forge(t, self, func(*x509.Certificate) {})}, "not signed by an authority"},
		"an authority":                 {[]*x509.Certificate{forge(t, ours[Client], func(c *x509.Certificate) { c.IsCA = true })}, "authority"},
		"a chain of ten":               {[]*x509.Certificate{good, good, good, good, good, good, good, good, good, good}, "a chain of 10"},
		"16 KiB of names":              {[]*x509.Certificate{forge(t, ours[Client], func(c *x509.Certificate) { c.DNSNames = []string{strings.Repeat("a", 16<<10)} })}, "at most 8192 are read"},
		"behind one that is too large": {[]*x509.Certificate{good, forge(t, ours[Client], func(c *x509.Certificate) { c.DNSNames = []string{strings.Repeat("a", 16<<10)} })}, "at most 8192"},
	} {
		who, err := trust(ours).Verify(c.chain, now)
		if !fault.Is(err, fault.Unauthenticated) || who != (identity.Identity{}) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want %q", name, who, err, c.says)
		}
	}
	if _, err := trust(ours).Verify([]*x509.Certificate{good}, now); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// A server of the cluster is reached at the addresses in its certificate, by clients
// that know the CA of servers only.
func TestServersAreKnownByTheirAddresses(t *testing.T) {
	ours := cluster(t)
	c := sign(t, ours[API], Leaf{Who: identity.Identity{Kind: identity.Master, Name: "m1"}, Use: x509.ExtKeyUsageServerAuth,
		Names: []string{"localhost"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}, now)
	roots := x509.NewCertPool()
	roots.AddCert(ours[API].Certificate)
	for name, want := range map[string]bool{"10.0.0.1": true, "fd00::1": true, "localhost": true, "10.0.0.2": false, "m1": false} {
		_, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingOutlivesItsAuthority(t *testing.T) {
	ours := cluster(t)
	end := ours[Client].Certificate.NotAfter
	leaf := Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth, Key: newKey(t).Public()}
	if c, err := ours[Client].Sign(leaf, end.Add(-time.Hour)); err != nil || !c.NotAfter.Equal(end) {
		t.Errorf("an hour before its end: %v", err)
	}
	for _, at := range []time.Time{end, end.Add(time.Hour), now.Add(-25 * time.Hour)} {
		if _, err := ours[Client].Sign(leaf, at); !fault.Is(err, fault.Conflict) {
			t.Errorf("at %s: %v", at, err)
		}
	}
}

// Backdating does not shorten a short life: the holder of such a certificate does not renew it at once.
func TestRenewalIsInTheMiddle(t *testing.T) {
	for _, life := range []time.Duration{LeafLife, time.Minute} {
		c := sign(t, cluster(t)[Client], Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth, Life: life}, now)
		if got := c.NotAfter.Sub(now); got != life {
			t.Errorf("good for %s, want %s", got, life)
		}
		for spread, want := range map[float64]float64{0: 0.45, 0.5: 0.5, 1: 0.55} {
			if got := float64(RenewalOf(c, now, spread).Left(now)) / float64(life); got < want-0.001 || got > want+0.001 {
				t.Errorf("%s, %v: after %v of its life", life, spread, got)
			}
		}
	}
}

func TestWhoAsksHasTheKey(t *testing.T) {
	key := newKey(t)
	der, err := Request(key)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadRequest(der); err != nil || !got.Equal(key.Public()) {
		t.Fatalf("%v", err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := Request(other)
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Clone(der)
	altered[len(altered)-1] ^= 1
	for name, der := range map[string][]byte{"none": nil, "cut off": der[:len(der)-1], "more": append(bytes.Clone(der), 0), "signature": altered, "curve": weak} {
		if _, err := ReadRequest(der); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	weak[len(weak)-1] ^= 1
	if _, err := ReadRequest(weak); err == nil || !strings.Contains(err.Error(), "curve P-256") {
		t.Errorf("the signature by another kind of key is verified: %v", err)
	}
}

func TestAuthoritiesAreReadAsTheyWereWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := Load(dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("nothing there: %v", err)
	}
	ours := cluster(t)
	if err := ours.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil || got.Cluster() != ours.Cluster() {
		t.Fatalf("%v", err)
	}
	c := sign(t, got[Client], Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth}, now)
	if _, err := trust(ours).Verify([]*x509.Certificate{c}, now); err != nil {
		t.Errorf("what they sign: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestDamagedAuthoritiesAreRefused(t *testing.T) {
	ours, others := cluster(t), cluster(t)
	foreign, err := others.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(dir string) error{
		"half written":           func(dir string) error { return os.Truncate(filepath.Join(dir, "api-ca.key"), 100) },
		"empty":                  func(dir string) error { return os.Truncate(filepath.Join(dir, "client-ca.crt"), 0) },
		"key of another":         func(dir string) error { return copyFile(dir, "api-ca.key", "client-ca.key") },
		"certificate of another": func(dir string) error { return copyFile(dir, "api-ca.crt", "client-ca.crt") },
		"missing":                func(dir string) error { return os.Remove(filepath.Join(dir, "store-ca.key")) },
		"readable by others":     func(dir string) error { return os.Chmod(filepath.Join(dir, "client-ca.key"), 0o640) },
		"a mebibyte": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "api-ca.crt"), make([]byte, 1<<20), 0o600)
		},
		"an authority of elsewhere": func(dir string) error { return put(dir, foreign, "store-ca.crt", "store-ca.key") },
		"only the key of elsewhere": func(dir string) error { return put(dir, foreign, "store-ca.key") },
		"text behind a certificate": func(dir string) error { return appendTo(filepath.Join(dir, "api-ca.crt"), "-----BEGIN CERT") },
		"text before a certificate": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "api-ca.crt"), []byte("x\n"+foreign["api-ca.crt"]), 0o600)
		},
		"a certificate for each use": func(dir string) error { return appendTo(filepath.Join(dir, "api-ca.crt"), foreign["api-ca.crt"]) },
	} {
		dir := t.TempDir()
		if err := ours.Save(dir); err != nil {
			t.Fatal(err)
		}
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: the error shows the file: %v", name, err)
		}
	}
}

func copyFile(dir, from, to string) error {
	content, err := os.ReadFile(filepath.Join(dir, from))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, to), content, 0o600)
}

func put(dir string, files map[string]string, names ...string) error {
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func appendTo(path, text string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, text...), 0o600)
}

// The standard library takes the pairs as they are.
func TestPairsAreThoseOfTheLibrary(t *testing.T) {
	key := newKey(t)
	c := sign(t, cluster(t)[Client], Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth, Key: key.Public()}, now)
	text, err := EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(EncodeCertificates(c), text); err != nil {
		t.Error(err)
	}
}

func FuzzParseCertificates(f *testing.F) {
	f.Add(EncodeCertificates(cluster(f)[API].Certificate))
	f.Fuzz(func(t *testing.T, text []byte) {
		certs, err := ParseCertificates(text)
		if err == nil && len(certs) == 0 {
			t.Error("none, and no error")
		}
		for _, c := range certs {
			if who, err := (Trust{Cluster: "c"}).Verify([]*x509.Certificate{c}, now); err == nil {
				t.Errorf("%s is trusted by nobody's word", who)
			}
		}
	})
}

func FuzzParseKey(f *testing.F) {
	text, err := EncodeKey(newKey(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseKey(text) })
}

func FuzzReadRequest(f *testing.F) {
	der, err := Request(newKey(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		if key, err := ReadRequest(der); err == nil && key == nil {
			t.Error("no key, and no error")
		}
	})
}
