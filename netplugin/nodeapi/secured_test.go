package nodeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/netplugin/membership"
	"github.com/contiv/netplugin/test/testkit"
)

// joined is the node h1 of a cluster with these CAs.
func joined(t *testing.T, by pki.Authorities) *membership.Member {
	t.Helper()
	dir := t.TempDir()
	key, err := pki.OpenKey(filepath.Join(dir, "node.key"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := by[pki.Client].Sign(pki.Leaf{Who: identity.Identity{Kind: identity.Node, Name: "h1"}, Use: x509.ExtKeyUsageClientAuth, Serves: true, Key: key.Public()}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*x509.Certificate{"node.crt": own, "clients.crt": by[pki.Client].Certificate, "ca.crt": by[pki.API].Certificate} {
		if err := os.WriteFile(filepath.Join(dir, name), pki.EncodeCertificates(c), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := membership.Open(membership.Config{Dir: dir, Host: "h1", Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// as has a server be that of a member.
func as(member Membership) func(*Config) { return func(c *Config) { c.Membership = member } }

// A node that has joined speaks TLS with all clients that are not on it, and answers netmasters only. On the node
// itself it answers with its health, and root at the socket.
func TestANodeThatHasJoinedAnswersNetmasters(t *testing.T) {
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	others, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	local := strings.TrimPrefix(start(t, &node{}, as(joined(t, by))), "http://")
	remote := fromOutside(t, local)
	testkit.OnlyAEAD(t, remote)
	leaf := func(by pki.Authorities, kind identity.Kind) []tls.Certificate {
		key, err := pki.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		c, err := by[pki.Client].Sign(pki.Leaf{Who: identity.Identity{Kind: kind, Name: "x"}, Use: x509.ExtKeyUsageClientAuth, Key: key.Public()}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}
	}
	for name, c := range map[string]struct {
		url  string
		own  []tls.Certificate
		code int // 0: no answer
	}{
		"a netmaster":                 {"https://" + remote + "/inspect/driver", leaf(by, identity.Master), 200},
		"another node":                {"https://" + remote + "/inspect/driver", leaf(by, identity.Node), 403},
		"of another cluster":          {"https://" + remote + "/inspect/driver", leaf(others, identity.Master), 401},
		"nobody":                      {"https://" + remote + "/metrics", nil, 401},
		"nobody, for its health":      {"https://" + remote + "/healthz", nil, 200},
		"in plain HTTP":               {"http://" + remote + "/healthz", nil, 400},
		"on the node":                 {"http://" + local + "/inspect/driver", nil, 401},
		"on the node, for metrics":    {"http://" + local + "/metrics", nil, 401},
		"on the node, for its health": {"http://" + local + "/readyz", nil, 200},
	} {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: c.own}}} // netmaster's side of it is tested there
		resp, err := client.Get(c.url)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.code || c.code == 400 && !strings.Contains(string(answer), "HTTPS server") {
			t.Errorf("%s: %d %.200s, %v; want %d", name, resp.StatusCode, answer, err, c.code)
		}
	}
}

// A machine that asks for handshakes as fast as it can gets its share of them, and waits for the others.
func TestHandshakesWaitForTheirTurn(t *testing.T) {
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	remote := fromOutside(t, strings.TrimPrefix(start(t, &node{}, as(joined(t, by))), "http://"))
	const more = 45
	began := time.Now()
	for range ratelimit.HandshakeBurst + more {
		conn, err := tls.Dial("tcp", remote, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if took, least := time.Since(began), time.Second*(more-1)/ratelimit.HandshakeRate; took < least {
		t.Errorf("%d handshakes of one machine in %s, want them to take at least %s", ratelimit.HandshakeBurst+more, took, least)
	}
}

// joining is the membership of a node that has not joined until has is set.
type joining struct {
	Membership
	has atomic.Bool
}

func (j *joining) Server() *tls.Config {
	if !j.has.Load() {
		return nil
	}
	return j.Membership.Server()
}

// A plain connection from before the node had joined has no more rights, neither then nor later.
func TestAPlainConnectionFromBeforeTheNodeHadJoinedIsNobodys(t *testing.T) {
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	member := &joining{Membership: joined(t, by)}
	local := start(t, &node{}, as(member))
	dialled := 0
	kept := &http.Transport{DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
		dialled++
		return new(net.Dialer).DialContext(ctx, network, at)
	}}
	t.Cleanup(kept.CloseIdleConnections)
	client := &http.Client{Timeout: 20 * time.Second, Transport: kept}
	asks := func(when, server string, want map[string]int) {
		t.Helper()
		for path, code := range want {
			resp, err := client.Get(server + path)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != code {
				t.Errorf("%s: %s: %d %.200s, %v; want %d", when, path, resp.StatusCode, answer, err, code)
			}
		}
	}
	little := map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/inspect/driver": 401, "/inspect/nameserver": 401, "/version": 401}
	remote := "http://" + fromOutside(t, strings.TrimPrefix(local, "http://"))
	asks("before", remote, little)
	member.has.Store(true)
	asks("after", remote, little)
	if dialled != 1 {
		t.Errorf("%d connections were made, want one that is kept", dialled)
	}
	asks("on the node", local, map[string]int{"/healthz": 200, "/metrics": 401, "/inspect/driver": 401})
}

// Answers about all tenants, and changes, are for root of the machine: all its users reach its loopback, too.
func TestRootAsksAtTheSocket(t *testing.T) {
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "made", "netplugin.sock")
	n := &node{}
	local := start(t, n, as(joined(t, by)), func(c *Config) { c.Socket = socket })
	byRoot := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for _, c := range []struct {
		client       *http.Client
		server       string
		method, path string
		code         int
	}{
		{byRoot, "http://node", "GET", "/healthz", 200},
		{byRoot, "http://node", "GET", "/metrics", 200},
		{byRoot, "http://node", "GET", "/inspect/driver", 200},
		{http.DefaultClient, local, "DELETE", "/debug/reclaimEndpoint/gone", 401},
		{byRoot, "http://node", "DELETE", "/debug/reclaimEndpoint/gone", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.server+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.client.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
			continue
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.code || c.code == 401 && !strings.Contains(string(answer), socket) {
			t.Errorf("%s %s%s: %d %.300s, %v; want %d", c.method, c.server, c.path, resp.StatusCode, answer, err, c.code)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
}
