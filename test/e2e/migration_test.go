package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// TestLongAClusterIsClosedWhileItRuns takes the steps of docs/security.md, "Closing a cluster
// that runs", while a pod sends a datagram each millisecond to another, and a client that knows
// neither tokens nor https makes and removes tenants. No datagram is lost, and no call of
// the client fails before the last step. Then the cluster is relaxed and enforced again.
func TestLongAClusterIsClosedWhileItRuns(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBed(t, testbed.Config{Nodes: 3, First: true})
	s := story{t, ctx, bed}
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	here, there := s.pod(1, "a", "blue", "front", ""), s.pod(2, "b", "blue", "front", "")
	s.reachEachOther(shortly, here, there)
	leader := s.leader()
	root := func(args ...string) string {
		t.Helper()
		out, err := leader.Run(ctx, append([]string{leader.Tool("netctl")}, args...)...) // root, on its machine
		s.must(err)
		return out
	}

	client := s.oldClient(leader)
	flows := []flow{{name: "closing", from: here, to: there.IP}, {name: "closing-fresh", from: there, to: here.IP, fresh: true}}
	nothingLost := func(reports []streamReport) {
		t.Helper()
		for i, r := range reports {
			if r.Lost != 0 || r.Sent == 0 {
				t.Errorf("%s: lost %d of %d", flows[i].name, r.Lost, r.Sent)
			}
		}
	}
	nothingLost(s.whileFlowing(flows, func() {
		root("security", "init", "--dry-run")
		root("security", "init")
		for _, role := range []string{"master", "node"} {
			token := root("token", "create", "--role", role, "-q")
			for _, n := range bed.Nodes {
				_, err := n.Run(ctx, "sh", "-ec", `umask 077; echo "$1" >"$2"`, "sh", strings.TrimSpace(token), "/run/contiv/token-"+role)
				s.must(err)
			}
		}
		for _, n := range bed.Nodes {
			if n == leader {
				continue
			}
			s.must(n.Netmaster().Terminate())
			s.must(n.StartNetmaster("--join-token-file", "/run/contiv/token-master"))
			s.soon(time.Minute, func() error { return memberServes(ctx, n) })
		}
		for i, n := range bed.Nodes {
			if i == 2 { // one is left to be named
				_, err := leader.Run(ctx, leader.Tool("netctl"), "security", "enforce")
				if err == nil || !strings.Contains(err.Error(), "node "+n.Name) {
					t.Errorf("enforced while %s is plain: %v", n.Name, err)
				}
			}
			s.must(n.Netplugin().Terminate())
			s.must(n.StartNetplugin("--join-token-file", "/run/contiv/token-node"))
			s.must(n.WaitReady(ctx))
		}
		s.soon(time.Minute, func() error {
			if out := root("security", "status"); strings.Contains(out, "nothing") {
				return errors.New(out)
			}
			return nil
		})
		if out := root("security", "report"); !strings.Contains(out, "nobody") {
			t.Errorf("the client is not in the report: %s", out)
		}
		if calls, failed := client.soFar(); len(failed) > 0 || calls == 0 {
			t.Errorf("before enforce, %d of %d calls failed: %q", len(failed), calls, failed)
		}
		root("security", "enforce", "--dry-run")
		root("security", "enforce")
		s.soon(shortly, func() error {
			if _, failed := client.soFar(); len(failed) == 0 || !strings.Contains(failed[len(failed)-1], "https://") {
				return fmt.Errorf("the client is served still: %q", failed)
			}
			return nil
		})
	}))
	nothingLost(s.whileFlowing(flows, func() {
		s.reachEachOther(shortly, here, s.pod(0, "c", "blue", "front", ""))
		root("security", "relax")
		s.soon(shortly, client.served)
		root("security", "enforce")
		s.soon(shortly, func() error {
			if client.served() == nil {
				return errors.New("the client is served still")
			}
			return nil
		})
		s.reachEachOther(shortly, there, s.pod(1, "d", "blue", "front", ""))
	}))
	root("security", "relax") // for who cleans up
	calls, failed := client.soFar()
	t.Logf("the client made %d calls, of which %d failed, all after enforce", calls, len(failed))
}

// oldClient asks a netmaster over plain HTTP, without a token.
type oldClient struct {
	http *http.Client
	url  string

	mu     sync.Mutex
	calls  int
	failed []string
}

// oldClient runs one until the end of the test.
func (s story) oldClient(n *testbed.Node) *oldClient {
	s.Helper()
	c := &oldClient{url: masterURL(n, "/api/v1/tenants/loop/"), http: &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DialContext: n.DialContext}}}
	ctx, stop := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		pace := time.NewTicker(20 * time.Millisecond) // leaves the processor to the switches
		defer pace.Stop()
		for ctx.Err() == nil {
			c.call(ctx, http.MethodPost, `{"tenantName":"loop"}`)
			c.call(ctx, http.MethodDelete, "")
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	})
	s.Cleanup(func() {
		stop()
		running.Wait()
		c.http.CloseIdleConnections()
	})
	return c
}

// call makes one call.
func (c *oldClient) call(ctx context.Context, method, body string) {
	err := c.ask(ctx, method, body)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if err != nil && len(c.failed) < 100_000 {
		c.failed = append(c.failed, method+": "+err.Error())
	}
}

func (c *oldClient) ask(ctx context.Context, method, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := make([]byte, 500)
	n, _ := resp.Body.Read(answer) // what there is of it is enough to tell
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, answer[:n])
	}
	return nil
}

// soFar is what has become of the calls.
func (c *oldClient) soFar() (calls int, failed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls, c.failed
}

// served tells why a request is not carried out.
func (c *oldClient) served() error {
	return c.ask(context.Background(), http.MethodGet, "")
}
