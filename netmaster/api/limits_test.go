package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/api/spool"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// flood sends requests of a user from many clients at once, and counts the answers by status.
func (b *bench) flood(who string, requests, clients int, headers ...string) map[int]int {
	b.Helper()
	var mu sync.Mutex
	var sending sync.WaitGroup
	codes := map[int]int{}
	for range clients {
		sending.Go(func() {
			for range requests / clients {
				code, answer, header := b.do("GET", "/version", "", append([]string{auth.TokenHeader, who}, headers...)...)
				if code != http.StatusOK && (header.Get("Retry-After") != "1" || !strings.Contains(answer, "requests a second")) {
					b.Errorf("%d %s %v", code, answer, header)
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	sending.Wait()
	return codes
}

// stopped returns a closed cluster with a clock that stands still.
func stopped(t *testing.T, mode mastercfg.SecurityMode, change ...func(*Config)) *bench {
	now := time.Now()
	return secured(t, mode, append(change, func(c *Config) {
		c.ClientRate, c.Now = 5, func() time.Time { return now }
	})...)
}

// A client far above its request rate is refused, and others are served as before; root is never refused.
func TestWhoAsksTooOftenIsRefusedAndNobodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	b := stopped(t, mastercfg.SecurityEnforced, func(c *Config) { c.Audit = log })
	ann, bob := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"}), b.user("bob", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	if codes := b.flood(ann, 60, 30, "Accept", fault.ProblemType); codes[200] != 15 || codes[429] != 45 { // ten at once, five in the second that requests wait
		t.Errorf("of ann: %v", codes)
	}
	if codes := b.flood(ann, 30, 30); codes[500] != 30 { // clients of the original
		t.Errorf("of ann, who knows no other status: %v", codes)
	}
	b.want(bob, "GET", "networks/blue:web", "", 200, "")
	for range 30 {
		b.want("proven:root", "GET", "networks/blue:web", "", 200, "")
	}
	code, answer, _ := b.do("GET", "networks/blue:web", "", auth.TokenHeader, ann, "Accept", fault.ProblemType)
	var p fault.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil || code != 429 || p.Code != 429 || p.Reason != "unavailable" || p.Message != "user/ann has sent more than 5 requests a second: try again later" {
		t.Errorf("%d %s, %v", code, answer, err)
	}
	// Without an identity the address counts, also for a request with a wrong token.
	if codes := b.flood(strings.Replace(ann, "ctv1_", "ctv1_x", 1), 30, 30, "Accept", fault.ProblemType); codes[200] != 15 || codes[429] != 15 {
		t.Errorf("of nobody: %v", codes)
	}
	b.want(bob, "GET", "networks/blue:web", "", 200, "")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ended)
	lines, err := os.ReadFile(path)
	if n := strings.Count(string(lines), "has sent more than 5"); err != nil || n != 2 { // of ann, and of nobody
		t.Errorf("%v: %d lines about refusals that are all alike:\n%s", err, n, lines)
	}
}

// A permissive cluster records excess requests instead of refusing them.
func TestAPermissiveClusterNotesWhoAsksTooOften(t *testing.T) {
	b := stopped(t, mastercfg.SecurityPermissive)
	ann := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	if codes := b.flood(ann, 60, 30); codes[200] != 60 {
		t.Errorf("%v", codes)
	}
	if answer := b.want("proven:root", "GET", "/api/v1/security/report", "", 200, ""); !strings.Contains(answer, "user/ann has sent more than 5 requests a second") {
		t.Errorf("not in the report: %s", answer)
	}
}

// One identity cannot take the watches, applies and long answers of all clients.
func TestAnIdentityHasItsShareOfWhatLasts(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann, bob := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"}), b.user("bob", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	var open []*watching
	const clientWatches, clientAnswers = 32, 4 // as in docs/limits.md
	for range clientWatches {
		open = append(open, b.watchAs("networks/?watch=true", ann))
	}
	refused := func(who, method, path, body, want string, code int) {
		t.Helper()
		status, answer, header := b.do(method, path, body, auth.TokenHeader, who, "Accept", fault.ProblemType)
		if status != code || !strings.Contains(answer, want) || (code == 429) != (header.Get("Retry-After") == "1") {
			t.Errorf("%s %s: %d %s", method, path, status, answer)
		}
	}
	const watch = "/api/v1/networks/?watch=true"
	refused(ann, "GET", watch, "", fmt.Sprintf("user/ann has %d watches at once", clientWatches), 429)
	b.watchAs("networks/?watch=true", bob)
	open[0].cancel()
	testkit.Eventually(t, 20*time.Second, "the place of a watch that has ended is free", func() bool {
		release, err := b.api.entrance.Take(b.entered(ann).Context(), ratelimit.Watch)
		release()
		return err == nil
	})
	b.watchAs("networks/?watch=true", ann)

	release, err := b.api.entrance.Take(b.entered(ann).Context(), ratelimit.Apply)
	if err != nil {
		t.Fatal(err)
	}
	const nothing = `{"operations":[]}`
	refused(ann, "POST", rest.ApplyPath, nothing, "1 apply at once", 429)
	refused(bob, "POST", rest.ApplyPath, nothing, "", 200)
	release()
	refused(ann, "POST", rest.ApplyPath, nothing, "", 200)
	refused(ann, "POST", rest.ApplyPath, "{", "", 400) // gives its place back, too
	refused(ann, "POST", rest.ApplyPath, nothing, "", 200)

	asked := b.entered(ann).Context()
	long := func() (*spool.Answer, error) {
		return b.api.answers.Write(asked, "", b.api.entrance.LongAnswer(asked), func(out io.Writer) error {
			_, err := out.Write(make([]byte, 1<<20))
			return err
		})
	}
	for n := range clientAnswers + 1 {
		answer, err := long()
		if n < clientAnswers && err != nil || n == clientAnswers && rest.StatusOf(err) != http.StatusTooManyRequests {
			t.Errorf("long answer %d: %v", n+1, err)
		}
		if err == nil {
			defer answer.Close()
		}
	}
}

// stuck is a client that does not read its answer until goes is closed. It reads a refusal.
type stuck struct {
	*httptest.ResponseRecorder
	begun chan struct{} // closed when there is something to read
	once  sync.Once
	goes  <-chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.Code == http.StatusOK {
		s.once.Do(func() { close(s.begun) })
		<-s.goes
	}
	return s.ResponseRecorder.Write(p)
}

// from returns a GET request from an address, with the identity of its connection.
func from(address string, who identity.Identity, path string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = address
	r.Header.Set("Accept", fault.ProblemType)
	return r.WithContext(identity.With(r.Context(), who))
}

// Even where excess requests are not refused, a client that does not read its answers leaves room for those of
// others.
func TestWhoDoesNotReadLeavesRoomForOthers(t *testing.T) {
	const size, list, near, far = 1 << 20, "/api/v1/networks/", "127.0.0.1:40000", "10.1.1.1:40000"
	b := ready(t)
	b.applying("", networks(300)...)
	nobody, ann := identity.Identity{}, identity.Identity{Kind: identity.User, Name: "ann"}
	for _, c := range []struct {
		mode mastercfg.SecurityMode
		who  identity.Identity
		path string
	}{
		{mastercfg.SecurityOpen, nobody, list},
		{mastercfg.SecurityOpen, nobody, list + "?watch=true"},
		{mastercfg.SecurityPermissive, nobody, list},
		{mastercfg.SecurityPermissive, ann, list},
	} {
		b.mode(c.mode)
		b.api.answers = spool.NewBudget(size, size/4)
		ctx, leave := context.WithCancel(identity.With(t.Context(), c.who))
		goes := make(chan struct{})
		var reading sync.WaitGroup
		held, refusal := 0, (*stuck)(nil)
		for refusal == nil && held < 100 {
			client, answered := &stuck{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), goes: goes}, make(chan struct{})
			reading.Go(func() {
				defer close(answered)
				b.api.ServeHTTP(client, from(far, c.who, c.path).WithContext(ctx))
			})
			select {
			case <-client.begun:
				held++
			case <-answered:
				refusal = client
			}
		}
		if refusal == nil || held == 0 || refusal.Code != http.StatusServiceUnavailable || refusal.Header().Get("Retry-After") != "1" {
			t.Errorf("%+v: beside %d answers that are not read, one more is not refused as unavailable: %+v", c, held, refusal)
		}
		code := func(address string, who identity.Identity) int {
			w := httptest.NewRecorder()
			b.api.ServeHTTP(w, from(address, who, list))
			return w.Code
		}
		for what, got := range map[string]int{
			"another address": code("10.1.1.2:40000", nobody), "the machine itself": code(near, nobody), "root": code("@", identity.Identity{Kind: identity.Root}),
		} {
			if got != http.StatusOK {
				t.Errorf("%+v: beside %d answers that are not read, %s: %d", c, held, what, got)
			}
		}
		leave()
		close(goes)
		reading.Wait()
		if got := code(far, c.who); got != http.StatusOK {
			t.Errorf("%+v: after all were read: %d", c, got)
		}
	}
}
