package objdb

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// authority is a CA that signs certificates for 127.0.0.1.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir()}
	a.replace(t)
	return a
}

// replace writes another CA, and a certificate of it, to the same files.
func (a *authority) replace(t *testing.T) {
	t.Helper()
	a.cert, a.key = a.issue(t, "ca", nil)
	a.issue(t, "node", a.key)
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.pem and name.key; without a signer the certificate is self-signed.
func (a *authority) issue(t *testing.T, name string, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent := a.cert
	if signer == nil {
		cert.IsCA, cert.BasicConstraintsValid, cert.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestAStoreWithTLSTakesOnlyClientsOfItsAuthority(t *testing.T) {
	t.Parallel() // it mostly waits
	ca := newAuthority(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	server := ca.server(t)
	url := server.ClientURL
	defer serve(ctx, t, server)()
	good := open(t, ca.client(url))
	if err := good.Ping(ctx); err != nil {
		t.Errorf("client of the authority: %v", err)
	}
	for name, cfg := range map[string]Config{
		"no certificate": {CAFile: ca.file("ca.pem")},
		"unknown server": {CertFile: ca.file("node.pem"), KeyFile: ca.file("node.key")},
	} {
		cfg.Endpoints, cfg.RequestTimeout = []string{url}, time.Second
		if err := open(t, cfg).Ping(ctx); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// server returns the configuration of a member that has a certificate of the CA and requires one from clients.
func (a *authority) server(t *testing.T) embedded.Config {
	url := "https" + testkit.FreeURL()[len("http"):]
	return embedded.Config{
		Dir: t.TempDir(), Name: "a", ClientURL: url, PeerURL: testkit.FreeURL(), Log: testkit.Quiet(), NoFsync: true,
		CertFile: a.file("node.pem"), KeyFile: a.file("node.key"), CAFile: a.file("ca.pem"),
	}
}

// client returns the configuration of a client with a certificate of the CA.
func (a *authority) client(url string) Config {
	return Config{Endpoints: []string{url}, CAFile: a.file("ca.pem"), CertFile: a.file("node.pem"), KeyFile: a.file("node.key")}
}

// serve starts a member; stop stops it.
func serve(ctx context.Context, t *testing.T, config embedded.Config) (stop func()) {
	t.Helper()
	s, err := embedded.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
}

// All certificates of a cluster are replaced with their CA; an existing client continues to work.
func TestAnotherAuthorityIsTrustedWithoutARestart(t *testing.T) {
	t.Parallel() // it mostly waits
	ca := newAuthority(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := ca.server(t)
	db := open(t, ca.client(server.ClientURL))
	stop := serve(ctx, t, server)
	testkit.Eventually(t, time.Minute, "the client is connected", func() bool { return db.Ping(ctx) == nil })
	stop()
	ca.replace(t)
	defer serve(ctx, t, server)()
	testkit.Eventually(t, time.Minute, "the client is connected again", func() bool { return db.Ping(ctx) == nil })
}

func TestAStoreWithUsersTakesOnlyTheRightPassword(t *testing.T) {
	p := testetcd.NewProcess(t)
	admin, ctx := open(t, Config{Endpoints: []string{p.URL}}), context.Background()
	enableUsers(t, admin)

	p.Kill() // a user and a password must not make Open wait for the store
	db := open(t, Config{Endpoints: []string{p.URL}, User: "root", Password: "secret", DialTimeout: time.Second})
	wrong := open(t, Config{Endpoints: []string{p.URL}, User: "root", Password: "guess"})
	p.Start()
	testkit.Eventually(t, time.Minute, "user gets in", func() bool { return db.Ping(ctx) == nil })
	put(t, db, "/m/a", "1")
	if got := valueOf(t, db, "/m/a"); got != "1" {
		t.Errorf("a user reads %q", got)
	}
	if err := wrong.Ping(ctx); !fault.Is(err, fault.Denied) {
		t.Errorf("wrong password: %v", err)
	}
	if err := admin.Ping(ctx); !fault.Is(err, fault.Denied) {
		t.Errorf("no user: %v", err)
	}
}

// enableUsers makes a store take only the user root with the password secret.
func enableUsers(t *testing.T, admin *DB) {
	t.Helper()
	client, err := admin.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserAdd(t.Context(), "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RoleAdd(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserGrantRole(t.Context(), "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Tokens end with the process of the store, when they expire and when the password is set, even to the same one.
func TestAUserWhoseTokenEndsGetsAnotherOne(t *testing.T) {
	p := testetcd.NewProcess(t)
	enableUsers(t, open(t, Config{Endpoints: []string{p.URL}}))
	for name, oneAtATime := range map[string]bool{"all": false, "one": true} {
		cfg := Config{Endpoints: []string{p.URL}, User: "root", Password: "secret"}
		setter := open(t, cfg)
		cfg.OneAtATime = oneAtATime
		db := open(t, cfg)
		key := "/m/" + name
		for _, user := range []*DB{setter, db} {
			testkit.Eventually(t, time.Minute, "user gets in", func() bool { return user.Ping(t.Context()) == nil })
		}
		put(t, db, key, "1")
		reads := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := db.Get(ctx, key)
			return err == nil
		}
		client, err := setter.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.UserChangePassword(t.Context(), "root", "secret"); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, "it reads after the password was set", reads)
		p.Kill()
		p.Start()
		testkit.Eventually(t, time.Minute, "it reads after a restart of the store", reads)
		put(t, db, key, "2")
	}
}
