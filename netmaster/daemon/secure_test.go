package daemon

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// secured runs a netmaster that makes the cluster's CAs.
func secured(t *testing.T, change ...func(*Security)) (n *node, cfg Security) {
	t.Helper()
	dir := t.TempDir()
	cfg = Security{Dir: filepath.Join(dir, "pki"), Founding: mastercfg.SecurityPermissive, Name: "m1", Socket: filepath.Join(dir, "run", "netmaster.sock")}
	for _, c := range change {
		c(&cfg)
	}
	n = run(t, func(c *Config) {
		c.Security, c.API.Audit = cfg, audit.New(filepath.Join(dir, "audit.log"), testkit.Quiet())
	})
	leader(t, n)
	return n, cfg
}

// clientOf returns a client over TLS, with these certificates.
func clientOf(t *testing.T, roots []*x509.Certificate, own ...tls.Certificate) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	for _, c := range roots {
		pool.AddCert(c)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: own}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// overSocket returns a client of the socket.
func overSocket(t *testing.T, path string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func exchange(t *testing.T, c *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/problem+json")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// A cluster creates its CAs once; TLS and plain HTTP are served on one port; root creates a token on the socket,
// and its holder joins over TLS.
func TestASecuredClusterIsJoined(t *testing.T) {
	storetest.Open(t)
	n, cfg := secured(t)
	all, err := pki.Load(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, []*x509.Certificate{all[pki.API].Certificate})
	for _, url := range []string{"https://" + n.addr, n.url} {
		if code, answer := exchange(t, client, "GET", url+"/api/v1/tenants/", ""); code != http.StatusOK || !strings.Contains(answer, "default") {
			t.Errorf("%s: %d %s", url, code, answer)
		}
	}
	code, answer := exchange(t, overSocket(t, cfg.Socket), "POST", "http://localhost"+mastercfg.JoinTokensPath, `{"role":"node"}`)
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal([]byte(answer), &shown); err != nil || code != http.StatusOK || shown.Record.Creator != "root" {
		t.Fatalf("token: %d %s, %v", code, answer, err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(mastercfg.JoinRequest{Token: shown.Token, Host: "h1", CSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	code, answer = exchange(t, client, "POST", "https://"+n.addr+mastercfg.JoinPath, string(request))
	var joined mastercfg.JoinResponse
	if err := json.Unmarshal([]byte(answer), &joined); err != nil || code != http.StatusOK {
		t.Fatalf("join: %d %s, %v", code, answer, err)
	}
	certs, err := pki.ParseCertificates([]byte(joined.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	own := tls.Certificate{Certificate: [][]byte{certs[0].Raw}, PrivateKey: key}
	if code, answer := exchange(t, clientOf(t, []*x509.Certificate{all[pki.API].Certificate}, own), "GET", "https://"+n.addr+"/version", ""); code != http.StatusOK {
		t.Errorf("with the certificate: %d %s", code, answer)
	}

	// The next netmaster on this directory serves with the same CAs.
	n.shut()
	again := run(t, func(c *Config) { c.Security = Security{Dir: cfg.Dir, Secure: true, Name: "m1"} })
	leader(t, again)
	if code, answer := exchange(t, client, "GET", "https://"+again.addr+"/version", ""); code != http.StatusOK {
		t.Errorf("after a restart: %d %s", code, answer)
	}
	if info, err := os.Stat(cfg.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// Clients without TLS are served as before.
func TestWithoutAuthoritiesTLSIsNotSpoken(t *testing.T) {
	storetest.Open(t)
	n := run(t)
	leader(t, n) // a candidate that is stopped may leave the lock to the next test
	conn, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("a handshake succeeds")
	}
}

// named answers with the client's identity and how it was authenticated.
var named = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	who := identity.From(r.Context())
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprintf(w, "%s key=%t tls=%t header=%q forwarded=%q from=%s plain=%t private=%t by=%q", who, who.KeyHash != "", r.TLS != nil,
		r.Header.Get(identityHeader), r.Header.Get("X-Forwarded-For"), from, rest.IsPlain(r), rest.Private(r), rest.Forwarder(r))
})

// served serves a handler as netmaster does, with CAs.
func served(t *testing.T) (addr string, p *certificates) {
	t.Helper()
	return servedBy(t, func(p *certificates) verifier { return p })
}

// servedBy is served with a verifier around the certificates.
func servedBy(t *testing.T, clients func(*certificates) verifier) (addr string, p *certificates) {
	t.Helper()
	p, l := founded(t)
	serve(t, clients(p), encrypting{Listener: l, config: p.server(), hasCertificate: p.hasAuthorities, handshakes: newHandshakes(testkit.Quiet())})
	return l.Addr().String(), p
}

// founded returns certificates of a netmaster that has made the CAs, and a listener on the loopback.
func founded(t testing.TB) (*certificates, net.Listener) {
	t.Helper()
	p, err := newCertificates(Security{Dir: filepath.Join(t.TempDir(), "pki"), Name: "m1", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, testkit.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.makeAuthorities(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return p, l
}

// serve serves the handler named until the test ends.
func serve(t testing.TB, clients verifier, l encrypting) {
	t.Helper()
	s, ended := newServer(named, clients, nil, testkit.Quiet()), make(chan error, 1)
	go func() { ended <- s.serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.stop(0), <-ended); err != nil {
			t.Error(err)
		}
	})
}

// certificate returns a client certificate of an identity.
func certificate(t *testing.T, by *pki.Authority, who identity.Identity, use x509.ExtKeyUsage, at time.Time) tls.Certificate {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := by.Sign(pki.Leaf{Who: who, Use: use, Key: key.Public()}, at)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key, Leaf: c}
}

func TestWhoAsksIsWhoShowsACertificate(t *testing.T) {
	addr, p := served(t)
	all := p.authorities()
	others, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots := []*x509.Certificate{all[pki.API].Certificate}
	h1, m1 := identity.Identity{Kind: identity.Node, Name: "h1"}, identity.Identity{Kind: identity.Master, Name: "m1"}
	client := x509.ExtKeyUsageClientAuth
	for name, c := range map[string]struct {
		own    []tls.Certificate
		header string // that has the client's identity
		code   int
		want   string
	}{
		"nobody":                   {nil, "", 200, `nobody key=false tls=true header=""`},
		"nobody who says root":     {nil, "root", 200, `nobody key=false tls=true header=""`},
		"a node":                   {[]tls.Certificate{certificate(t, all[pki.Client], h1, client, time.Now())}, "", 200, `node/h1 key=true tls=true header="" forwarded="" from=127.0.0.1 plain=false private=true by=""`},
		"a node that says root":    {[]tls.Certificate{certificate(t, all[pki.Client], h1, client, time.Now())}, "root", 200, `node/h1 key=true`},
		"a netmaster":              {[]tls.Certificate{certificate(t, all[pki.Client], m1, client, time.Now())}, "", 200, `master/m1 key=true`},
		"a netmaster that passes":  {[]tls.Certificate{certificate(t, all[pki.Client], m1, client, time.Now())}, "node/h2 abcd", 200, `node/h2 key=true tls=true header="" forwarded="" from=10.9.9.9 plain=false private=true by="m1"`},
		"a netmaster for nobody":   {[]tls.Certificate{certificate(t, all[pki.Client], m1, client, time.Now())}, "nobody", 200, `nobody key=false`},
		"nonsense of a netmaster":  {[]tls.Certificate{certificate(t, all[pki.Client], m1, client, time.Now())}, "king/h2", 401, "identity"},
		"somebody of elsewhere":    {[]tls.Certificate{certificate(t, others[pki.Client], h1, client, time.Now())}, "", 401, "not signed by an authority of this cluster"},
		"the authority of servers": {[]tls.Certificate{certificate(t, all[pki.API], h1, client, time.Now())}, "", 401, "not signed by an authority"},
		"a server":                 {[]tls.Certificate{certificate(t, all[pki.Client], h1, x509.ExtKeyUsageServerAuth, time.Now())}, "", 401, "usage"},
	} {
		req, err := http.NewRequest("GET", "https://"+addr+"/who", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(identityHeader, c.header)
		req.Header.Set("X-Forwarded-For", "10.9.9.9")
		resp, err := clientOf(t, roots, c.own...).Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.code || !strings.Contains(string(answer), c.want) {
			t.Errorf("%s: %d %s, %v; want %d %s", name, resp.StatusCode, answer, err, c.code, c.want)
		}
		if resp.Close != (c.code == 401) {
			t.Errorf("%s: the connection ends: %t", name, resp.Close)
		}
	}
}

// A connection that is neither TLS nor HTTP, stops half-way or is too old ends, and others are served.
func TestConnectionsThatAreNoneOfBoth(t *testing.T) {
	addr, p := served(t)
	for name, said := range map[string][]byte{
		"half a handshake":  {tlsHandshake, 3, 1, 0, 200, 1},
		"a wrong handshake": append([]byte{tlsHandshake, 3, 1, 0, 5}, "hello world, this is no TLS"...),
		"nonsense":          {0, 1, 2, 3, '\r', '\n', '\r', '\n'},
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(said); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if name != "half a handshake" { // which waits for the rest until the time for a header is over
			if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%s: %v", name, err)
			}
		}
		conn.Close()
	}
	old := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, ServerName: "localhost"}
	old.RootCAs.AddCert(p.authorities()[pki.API].Certificate)
	if conn, err := tls.Dial("tcp", addr, old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	for _, url := range []string{"http://" + addr, "https://" + addr} {
		if code, answer := exchange(t, clientOf(t, []*x509.Certificate{p.authorities()[pki.API].Certificate}), "GET", url, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", url, code, answer)
		}
	}
}

// Connections to the gate have TLS 1.3, whatever else the client offers beside the gate's protocol. Those of REST may
// have TLS 1.2.
func TestTheGateSpeaksTheLatestTLSOnly(t *testing.T) {
	p, l := founded(t)
	defer l.Close()
	for _, c := range []struct {
		offered []string
		version uint16
		agreed  string // empty: nothing
	}{
		{[]string{gateProtocol}, tls.VersionTLS13, gateProtocol},
		{[]string{gateProtocol}, tls.VersionTLS12, ""},
		{[]string{gateProtocol, "spdy/3"}, tls.VersionTLS13, gateProtocol},
		{[]string{gateProtocol, "spdy/3"}, tls.VersionTLS12, ""},
		{[]string{gateProtocol, restProtocol}, tls.VersionTLS12, restProtocol},
	} {
		here, there := net.Pipe()
		go func() { _ = tls.Server(there, p.server()).HandshakeContext(t.Context()) }()
		client := tls.Client(here, &tls.Config{InsecureSkipVerify: true, NextProtos: c.offered, MaxVersion: c.version})
		err := client.HandshakeContext(t.Context())
		if agreed := client.ConnectionState().NegotiatedProtocol; (err == nil) != (c.agreed != "") || err == nil && agreed != c.agreed {
			t.Errorf("%s by TLS %s: %q, %v; want %q", c.offered, tls.VersionName(c.version), agreed, err, c.agreed)
		}
		here.Close()
		there.Close()
	}
}

// Certificates are replaced under the connections that use them.
func TestARenewedCertificateIsShownToTheNext(t *testing.T) {
	addr, p := served(t)
	roots := x509.NewCertPool()
	roots.AddCert(p.authorities()[pki.API].Certificate)
	dial := func() *tls.Conn {
		conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	before := dial()
	if err := p.renew(p.current.Load()); err != nil {
		t.Fatal(err)
	}
	after := dial()
	if before.ConnectionState().PeerCertificates[0].Equal(after.ConnectionState().PeerCertificates[0]) {
		t.Error("the certificate is that of before")
	}
	for _, conn := range []*tls.Conn{before, after} {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: m1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%v, %v", resp, err)
		}
	}
}
