package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/utils/retry"
)

// caller creates and deletes a tenant repeatedly. It knows all netmasters: a call without an answer, or that a
// netmaster could not forward (502, 503), is repeated at the next one, as in docs/security.md, so the outcome of
// the first is unknown.
type caller struct {
	http  *http.Client
	urls  []string // of netmasters
	token string   // empty: none, the caller is anonymous
	body  string
	path  string

	mu     sync.Mutex
	calls  int
	again  int // attempts that succeeded at another netmaster
	failed []string
}

// callLimit is how long a call may take with all its attempts: another leader needs some seconds where a machine
// is busy.
const callLimit = 30 * time.Second

// caller starts the calls, from a node, for one tenant; they end with the test.
func (s story) caller(from *testbed.Node, scheme string, known *x509.CertPool, token, tenant string) *caller {
	s.Helper()
	c := &caller{token: token, path: "/api/v1/tenants/" + tenant + "/", body: `{"tenantName":"` + tenant + `"}`, http: &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DialContext: from.DialContext, TLSClientConfig: &tls.Config{RootCAs: known}}}}
	for _, n := range s.bed.Nodes {
		c.urls = append(c.urls, scheme+"://"+n.MgmtIP+":9999")
	}
	ctx, stop := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			c.call(ctx, http.MethodPost, c.body)
			c.call(ctx, http.MethodDelete, "")
			retry.Pause(ctx, 20*time.Millisecond) // leaves the processor to the switches
		}
	})
	s.Cleanup(func() {
		stop()
		running.Wait()
		c.http.CloseIdleConnections()
	})
	return c
}

// call makes one call, at one netmaster after the other.
func (c *caller) call(ctx context.Context, method, body string) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	attempts := 0
	code, err := 0, error(nil)
	for ; limited.Err() == nil; retry.Pause(limited, 20*time.Millisecond) {
		code, err = c.ask(limited, c.urls[0], method, c.path, body)
		attempts++
		if code != 0 && code != http.StatusBadGateway && code != http.StatusServiceUnavailable {
			break
		}
		c.urls = append(c.urls[1:], c.urls[0])
	}
	if ctx.Err() != nil {
		return
	}
	if attempts > 1 && method == http.MethodDelete && code == http.StatusNotFound {
		err = nil // an attempt without an answer was carried out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if attempts > 1 && err == nil {
		c.again++
	}
	if err != nil && len(c.failed) < 100_000 {
		c.failed = append(c.failed, method+": "+err.Error())
	}
}

// ask sends one request; code is 0 without an answer.
func (c *caller) ask(ctx context.Context, url, method, path, body string) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if c.token != "" {
		req.Header.Set("X-Auth-Token", c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 500))
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return resp.StatusCode, err
}

// soFar returns the number of calls, of repeated ones, and the failures.
func (c *caller) soFar() (calls, again int, failed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls, c.again, c.failed
}

// served returns why a request is not carried out.
func (c *caller) served(url string) error {
	_, err := c.ask(context.Background(), url, http.MethodGet, "/api/v1/tenants/default/", "")
	return err
}

// noneFailed expects that calls were made, and all carried out.
func (s story) noneFailed(when string, c *caller) {
	s.Helper()
	calls, again, failed := c.soFar()
	s.Logf("%s, %s: %d calls, %d of them carried out by another netmaster than was asked first, %d failed", c.path, when, calls, again, len(failed))
	if calls == 0 || len(failed) > 0 {
		s.Errorf("%s, %s: of %d calls %d failed, first %q", c.path, when, calls, len(failed), failed[:min(len(failed), 3)])
	}
}

// goesOn waits until a caller has made some more calls.
func (s story) goesOn(c *caller) {
	s.Helper()
	before, _, _ := c.soFar()
	s.soon(shortly, func() error {
		if now, _, _ := c.soFar(); now < before+20 {
			return fmt.Errorf("%s: %d calls, and %d before", c.path, now, before)
		}
		return nil
	})
}

// authorityOf returns the CA of a cluster's servers, from a netmaster's machine.
func (s story) authorityOf(n *testbed.Node) *x509.CertPool {
	s.Helper()
	text, err := n.Run(s.ctx, "cat", "/var/lib/contiv/pki/api-ca.crt")
	s.must(err)
	known := x509.NewCertPool()
	if !known.AppendCertsFromPEM([]byte(text)) {
		s.Fatalf("no certificate: %s", text)
	}
	return known
}

// login returns the token of a session.
func (s story) login(n *testbed.Node, known *x509.CertPool, name, password string) string {
	s.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext, TLSClientConfig: &tls.Config{RootCAs: known}, DisableKeepAlives: true}}
	resp, err := client.Post("https://"+n.MgmtIP+":9999/api/v1/auth_proxy/login/", "application/json", strings.NewReader(`{"username":"`+name+`","password":"`+password+`"}`))
	s.must(err)
	defer resp.Body.Close()
	var said struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || said.Token == "" {
		s.Fatalf("login of %s: %s %v", name, resp.Status, err)
	}
	return said.Token
}
