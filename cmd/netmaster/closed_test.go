package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/test/testkit"
)

// closedOne is a netmaster that has founded an enforced cluster.
type closedOne struct {
	*process
	dir  string
	root *http.Client // on its socket
	ca   []byte       // of its certificate
	pool *x509.CertPool
}

// closed starts one, as a process of its own, and waits until it leads.
func closed(t *testing.T, flags ...string) *closedOne {
	t.Helper()
	return closedWith(t, "http:", flags...)
}

// closedWith starts one with a member of the store at URLs of a scheme.
func closedWith(t *testing.T, scheme string, flags ...string) *closedOne {
	t.Helper()
	c := &closedOne{process: closedAlone(t, scheme), dir: t.TempDir(), pool: x509.NewCertPool()}
	c.flags = slices.Concat(c.flags, keptIn(c.dir), flags)
	c.start()
	c.endsWithTest()
	leader(t, time.Minute, []*process{c.process})
	c.root = clientAt(t, filepath.Join(c.dir, "netmaster.sock"))
	var err error
	c.ca, err = os.ReadFile(filepath.Join(c.dir, "pki", "api-ca.crt"))
	if err != nil || !c.pool.AppendCertsFromPEM(c.ca) {
		t.Fatalf("%v: %s", err, c.ca)
	}
	return c
}

// closedAlone returns a netmaster that will found a closed cluster alone, its member at URLs of a scheme.
func closedAlone(t *testing.T, scheme string) *process {
	t.Helper()
	free := func() string { return strings.Replace(testkit.FreeURL(), "http:", scheme, 1) }
	p := &process{T: t, addr: testkit.FreeAddress(), store: free()}
	p.flags = []string{"--mode", "cni", "--netmode", "vxlan", "--fwdmode", "routing", "--external-address", p.addr, "--internal-address", p.addr,
		"--secure", "--embedded-etcd-client-url", p.store, "--embedded-etcd-peer-url", free(), "--embedded-etcd-unsafe-no-fsync"}
	return p
}

// keptIn returns the flags for a netmaster with all its files below a directory.
func keptIn(dir string) []string {
	return []string{"--pki-dir", filepath.Join(dir, "pki"), "--socket", filepath.Join(dir, "netmaster.sock"), "--audit-log", filepath.Join(dir, "audit.log"),
		"--embedded-etcd", filepath.Join(dir, "etcd")}
}

// clientAt returns root's client at a socket.
func clientAt(t *testing.T, socket string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: 30 * time.Second, Transport: transport}
}

// from returns a client over TLS with an address of the loopback as its source.
func (c *closedOne) from(address string) *http.Client {
	client := clientFrom(address, c.pool)
	c.Cleanup(client.CloseIdleConnections)
	return client
}

// clientFrom returns a client over TLS with an address of the loopback as its source, for servers of a CA.
func clientFrom(address string, pool *x509.CertPool) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 16}}
}

// ask sends a request, with a token unless that is empty.
func (c *closedOne) ask(client *http.Client, token, method, path, body string) (code int, answer string, err error) {
	base := "https://" + c.addr
	if client == c.root {
		base = "http://localhost"
	}
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("X-Auth-Token", token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// byRoot sends a request on the socket, which must succeed.
func (c *closedOne) byRoot(method, path, body string) string {
	c.Helper()
	code, answer, err := c.ask(c.root, "", method, path, body)
	if err != nil || code/100 != 2 {
		c.Fatalf("%s %s: %d %s %v", method, path, code, answer, err)
	}
	return answer
}

const goodPassword = "correct horse battery"

// user creates a user with the role operator, and returns the token of a login.
func (c *closedOne) user(name string) (token string) {
	c.Helper()
	c.byRoot("POST", logins.AuthPath+"/local_users/", `{"username":"`+name+`","password":"`+goodPassword+`"}`)
	c.byRoot("POST", logins.AuthPath+"/authorizations/", `{"principalName":"`+name+`","local":true,"role":"operator"}`)
	code, answer, err := c.login(c.from("127.0.0.1"), name, goodPassword)
	var said struct{ Token string }
	if err != nil || json.Unmarshal([]byte(answer), &said) != nil || said.Token == "" {
		c.Fatalf("login of %s: %d %s %v", name, code, answer, err)
	}
	return said.Token
}

func (c *closedOne) login(client *http.Client, name, password string) (code int, answer string, err error) {
	return c.ask(client, "", "POST", logins.AuthPath+"/login/", `{"username":"`+name+`","password":"`+password+`"}`)
}
