package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

const clientAnswers = 4 // as in docs/limits.md

// Searches are made one after the other, and one client has few of those that wait.
func TestSearchesOfOneClientLeaveRoomForOthers(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann, bob := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"}), b.user("bob", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	b.endpointAs("proven:node/h1", "blue", "one")
	var waiting sync.WaitGroup
	goes, began := make(chan struct{}), make(chan string, 8)
	searches := func(who string, times int) {
		asked, counted := b.entered(who), atomic.Int32{}
		searching := b.api.long(func(r *http.Request) (rest.Reply, error) {
			counted.Add(1)
			return rest.Reply{}, b.api.search(r.Context(), func(ledger.Reader) error { began <- who; <-goes; return nil })
		})
		for range times {
			waiting.Go(func() {
				if _, err := searching(asked); err != nil {
					t.Errorf("%s: %v", who, err)
				}
			})
		}
		testkit.Eventually(t, searchPatience, "all of them are counted", func() bool { return int(counted.Load()) == times })
		if release, err := b.api.entrance.Take(asked.Context(), ratelimit.LongAnswer); err == nil {
			release()
			t.Errorf("%s has room for more", who)
		}
	}
	searches(ann, clientAnswers)
	for _, path := range []string{"/api/v1/inspect/endpoints/one", verdictPath + "?from=one&to=one&port=1&protocol=tcp", tracePath + "?from=one&to=one&port=1&protocol=tcp"} {
		code, answer, _ := b.do("GET", path, "", auth.TokenHeader, ann, "Accept", fault.ProblemType)
		if code != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	if n := len(began); n > 1 {
		t.Errorf("%d were made at once", n)
	}
	searches(bob, clientAnswers) // has as many places whatever ann has
	close(goes)
	waiting.Wait()
	if n := len(began); n != 2*clientAnswers {
		t.Errorf("%d searches were made, want %d", n, 2*clientAnswers)
	}
}

// The number of a client's concurrent traces and clean-ups is limited like that of long answers, however long the
// nodes take.
func TestWhoAsksNodesThatTakeLongHasFewAnswersUnderWay(t *testing.T) {
	came, goes := make(chan struct{}, 2*clientAnswers), make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		<-goes
		http.Error(w, "not here", http.StatusNotFound)
	}))
	t.Cleanup(node.Close)
	at := netip.MustParseAddrPort(node.Listener.Addr().String())
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.AgentPort = int(at.Port()) })
	registration, err := b.db.Register(t.Context(), 10*time.Second,
		objdb.Service{ServiceName: mastercfg.AgentService, HostAddr: at.Addr().String(), Port: 9002, Hostname: "h1"},
		objdb.Service{ServiceName: mastercfg.AgentVTEPService, HostAddr: at.Addr().String(), Port: 4789, Hostname: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registration.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, 10*time.Second, "the node is registered", func() bool {
		all, err := b.db.Services(t.Context(), mastercfg.AgentVTEPService)
		return err == nil && len(all) == 1
	})
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.endpointAs("proven:node/h1", "blue", "one")
	const trace = tracePath + "?from=one&to=one&port=1&protocol=tcp"
	var under sync.WaitGroup
	for i := range clientAnswers {
		under.Go(func() {
			method, path := http.MethodGet, trace
			if i%2 == 1 {
				method, path = http.MethodDelete, "/debug/epcleanup/tenant/blue/ep/one"
			}
			// The node knows neither the endpoint nor a trace of it.
			want := map[string]int{http.MethodGet: http.StatusNotFound, http.MethodDelete: http.StatusOK}[method]
			if code, answer, _ := b.do(method, path, "", auth.TokenHeader, ann, "Accept", fault.ProblemType); code != want {
				t.Errorf("%s %s: %d %s", method, path, code, answer)
			}
		})
	}
	defer under.Wait()
	defer close(goes)
	for range clientAnswers {
		select {
		case <-came:
		case <-time.After(nodeTimeout):
			t.Fatal("the node is not asked")
		}
	}
	if code, answer, _ := b.do("GET", trace, "", auth.TokenHeader, ann, "Accept", fault.ProblemType); code != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", code, answer)
	}
}
