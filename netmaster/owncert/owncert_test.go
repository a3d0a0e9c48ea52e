package owncert

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// issuer is a CA that is not one of a cluster.
type issuer struct {
	testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t testing.TB) issuer {
	i := issuer{TB: t}
	i.cert, i.key = i.make(&x509.Certificate{Subject: pkix.Name{CommonName: "Example CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return i
}

// make returns a certificate by a template, with a new key; nil: self-signed.
func (i issuer) make(template *x509.Certificate, by *issuer) (*x509.Certificate, *ecdsa.PrivateKey) {
	i.Helper()
	key, err := pki.NewKey()
	if err != nil {
		i.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		i.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		i.Fatal(err)
	}
	return c, key
}

// leaf returns a certificate for a subject with a URI, if it is not empty.
func (i issuer) leaf(subject, uri string, use x509.ExtKeyUsage, names ...string) (*x509.Certificate, *ecdsa.PrivateKey) {
	i.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: subject, Organization: []string{"Example"}}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{use}, DNSNames: names}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			i.Fatal(err)
		}
		template.URIs = []*url.URL{u}
	}
	return i.make(template, &i)
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// bring writes a certificate, or a key, or both.
func (i issuer) bring(f Files, c *x509.Certificate, key *ecdsa.PrivateKey) {
	i.Helper()
	if c != nil {
		write(i, f.Cert, pki.EncodeCertificates(c))
	}
	if key != nil {
		text, err := pki.EncodeKey(key)
		if err != nil {
			i.Fatal(err)
		}
		write(i, f.Key, text)
	}
}

// Another pair is shown as soon as both of its files are there; until then, and while a
// file cannot be used, the one of before is, and the log says which file is wrong.
func TestAPairIsReplacedAsAWhole(t *testing.T) {
	by := newIssuer(t)
	dir := t.TempDir()
	f := Files{Cert: filepath.Join(dir, "server.crt"), Key: filepath.Join(dir, "server.key")}
	first, firstKey := by.leaf("first", "", x509.ExtKeyUsageServerAuth, "net.example")
	by.bring(f, first, firstKey)
	logger, said := logtest.NewNullLogger()
	c, err := Open(f, logrus.NewEntry(logger))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan os.Signal)
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, told) })
	defer func() { stop(); running.Wait() }()
	second, secondKey := by.leaf("second", "", x509.ExtKeyUsageServerAuth, "net.example")
	for _, step := range []struct {
		name  string
		cert  *x509.Certificate
		key   *ecdsa.PrivateKey
		spoil func() error
		want  *x509.Certificate
		says  string
	}{
		{name: "a certificate without its key", cert: second, want: first, says: "private key does not match"},
		{name: "then its key", key: secondKey, want: second, says: "another certificate is shown"},
		{name: "half a file", spoil: func() error { return os.Truncate(f.Cert, 100) }, want: second, says: f.Cert},
		{name: "no key", cert: first, spoil: func() error { return os.Remove(f.Key) }, want: second, says: f.Key},
		{name: "a key for all to read", key: firstKey, spoil: func() error { return os.Chmod(f.Key, 0o644) }, want: second, says: "others can read"},
		{name: "all is well", spoil: func() error { return os.Chmod(f.Key, 0o600) }, want: first, says: "another certificate is shown"},
	} {
		said.Reset()
		by.bring(f, step.cert, step.key)
		if step.spoil != nil {
			if err := step.spoil(); err != nil {
				t.Fatal(err)
			}
		}
		told <- nil
		text := func() string {
			e := said.LastEntry()
			if e == nil {
				return ""
			}
			line, _ := e.String()
			return line
		}
		testkit.Eventually(t, 10*time.Second, step.name+": it is said", func() bool { return text() != "" })
		if line := text(); !strings.Contains(line, step.says) || !c.Shown().Leaf.Equal(step.want) || strings.Contains(line, "BEGIN") {
			t.Errorf("%s: %s is shown, and said: %s", step.name, c.Shown().Leaf.Subject, line)
		}
	}
	if c.For("net.example") == nil || c.For("other.example") != nil || c.For("") != nil {
		t.Error("it is shown for other names than its own")
	}
}

func TestUsersOfAnAuthorityOfOnesOwn(t *testing.T) {
	by, others := newIssuer(t), newIssuer(t)
	dir := t.TempDir()
	f := Files{ClientCA: filepath.Join(dir, "ca.crt"), Map: filepath.Join(dir, "users")}
	write(t, f.ClientCA, pki.EncodeCertificates(by.cert))
	client := x509.ExtKeyUsageClientAuth
	byKey, _ := by.leaf("Bob", "", client)
	write(t, f.Map, []byte("# who is who\n\nalice  CN=Alice Ames,O=Example\nbob key:"+pki.KeyHash(byKey)+"\n"))
	c, err := Open(f, testkit.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(by issuer, subject, uri string, use x509.ExtKeyUsage) *x509.Certificate {
		leaf, _ := by.leaf(subject, uri, use)
		return leaf
	}
	for name, try := range map[string]struct {
		shown *x509.Certificate
		want  string // or the reason
	}{
		"by its subject":         {leaf(by, "Alice Ames", "", client), "user/alice"},
		"by its key":             {byKey, "user/bob"},
		"by its URI":             {leaf(by, "x", "contiv://c1/user/carol", client), "user/carol"},
		"the common name only":   {leaf(by, "carol", "", client), "0 names"},
		"in no line":             {leaf(by, "dave", "", client), "no line of --client-cert-map has key:"},
		"another cluster":        {leaf(by, "x", "contiv://c2/user/carol", client), "belongs to cluster c2"},
		"a node":                 {leaf(by, "x", "contiv://c1/node/h1", client), "has not joined"},
		"a netmaster":            {leaf(by, "x", "contiv://c1/master/m1", client), "has not joined"},
		"a server":               {leaf(by, "Alice Ames", "", x509.ExtKeyUsageServerAuth), "usage"},
		"another authority":      {leaf(others, "Alice Ames", "", client), "not signed by an authority"},
		"the authority's itself": {by.cert, "that of an authority"},
	} {
		who, err := c.Verify("c1", []*x509.Certificate{try.shown}, time.Now())
		if err == nil && (who.String() != try.want || who.KeyHash != pki.KeyHash(try.shown)) || err != nil && !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: %s, %v; want %s", name, who, err, try.want)
		}
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	ca := filepath.Join(dir, "ca")
	write(t, ca, pki.EncodeCertificates(newIssuer(t).cert))
	for content, want := range map[string]string{
		"alice\n":           "line 1: want the name",
		"\na/b CN=x\n":      "line 2: want the name",
		"a CN=x\nb CN=x":    "line 2: CN=x stands for a already",
		"alice CN=x\nbob  ": "line 2: want the name",
	} {
		write(t, users, []byte(content))
		if _, err := Open(Files{ClientCA: ca, Map: users}, testkit.Quiet()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), users) {
			t.Errorf("%q: %v", content, err)
		}
	}
	for want, f := range map[string]Files{"needs its key": {Cert: "a"}, "--tls-client-ca": {Map: "a"}} {
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := (Files{}).Check(); err != nil {
		t.Error(err)
	}
}
