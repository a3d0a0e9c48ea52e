package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestALoneNetmasterLeadsAndMakesWhatAClusterNeeds(t *testing.T) {
	storetest.Open(t)
	n := run(t)
	leader(t, n)
	if got := n.ok("GET", "/readyz", ""); got != "leader" {
		t.Errorf("readyz: %s", got)
	}
	const global = `[{"key":"global","arpMode":"proxy","fwdMode":"routing","name":"global","networkInfraType":"default","pvtSubnet":"172.19.0.0/16","vlans":"1-4094","vxlans":"1-10000"}]`
	if got := n.ok("GET", "/api/v1/globals/", ""); got != global {
		t.Errorf("global: %s", got)
	}
	if got := n.ok("GET", "/api/v1/tenants/", ""); got != `[{"key":"default","tenantName":"default","link-sets":{}}]` {
		t.Errorf("tenants: %s", got)
	}
	if got := n.ok("GET", "/metrics", ""); !strings.Contains(got, "netmaster_leader 1") {
		t.Error("metrics do not say who leads")
	}
}

func TestFollowersForwardAndTellTheLeadersView(t *testing.T) {
	storetest.Open(t)
	a, b, c := run(t), run(t), run(t)
	first, followers := leader(t, a, b, c)
	for i, f := range followers {
		f.ok("POST", fmt.Sprintf("/api/v1/tenants/t%d/", i), fmt.Sprintf(`{"tenantName":"t%d"}`, i))
		if got := first.ok("GET", fmt.Sprintf("/api/v1/tenants/t%d/", i), ""); !strings.Contains(got, fmt.Sprintf("t%d", i)) {
			t.Errorf("leader has %s", got)
		}
		if code, answer, err := f.try("DELETE", "/api/v1/tenants/none/", ""); err != nil || code != 500 || answer != "tenant not found" {
			t.Errorf("an error comes through as %d %s %v", code, answer, err)
		}
		var info map[string]any
		testkit.Eventually(t, time.Minute, "all netmasters are registered", func() bool {
			if err := json.Unmarshal([]byte(f.ok("GET", "/info", "")), &info); err != nil {
				t.Fatal(err)
			}
			return slices.Equal(info["netmaster-nodes"].([]any), []any{"127.0.0.1"})
		})
		if info["leader-ip"] != first.addr || info["current-state"] != "leader" {
			t.Errorf("info %v, leader %s", info, first.addr)
		}
		if got := f.ok("GET", "/readyz", ""); got != "follower of "+first.addr {
			t.Errorf("readyz: %s", got)
		}
		if code, answer, err := f.try("POST", "/api/v1/tenants/x/", strings.Repeat("x", 2<<20)); err != nil || code != 500 || !strings.HasPrefix(answer, "request body too large") {
			t.Errorf("large body: %d %s %v", code, answer, err)
		}
	}
	registered(t, "follower", "follower", "leader")
}

// registered waits until the registered netmasters have these roles, sorted. A new leader is registered as such a
// moment later.
func registered(t *testing.T, want ...string) {
	t.Helper()
	db := storetest.Connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := testkit.Poll(ctx, func() error {
		services, err := db.Services(ctx, mastercfg.MasterService)
		var roles []string
		for _, s := range services {
			roles = append(roles, s.Role)
		}
		if slices.Sort(roles); err == nil && !slices.Equal(roles, want) {
			err = fmt.Errorf("registered are %q, want %q", roles, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// It would take a minute if the lease had to expire.
func TestASuccessorServesAtOnceAfterACleanEnd(t *testing.T) {
	storetest.Open(t)
	a, b := run(t), run(t)
	first, others := leader(t, a, b)
	first.ok("POST", "/api/v1/networks/default:web/", webNetwork)
	first.shut()
	testkit.Eventually(t, 30*time.Second, "the successor serves", func() bool { // half of what the lease had left
		code, answer, err := others[0].endpoint("c1")
		if err != nil || code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Fatalf("%d %s %v", code, answer, err)
		}
		return code == http.StatusOK
	})
	registered(t, "leader")
}

// usurp deletes the leader's candidate key, as the store does when a lease runs out.
func usurp(t testing.TB) {
	t.Helper()
	db := storetest.Connect(t)
	if _, _, err := db.Txn(t.Context(), txnDelete(oldest(t, db).Key)); err != nil {
		t.Fatal(err)
	}
}

// oldest returns the key of the leading candidate.
func oldest(t testing.TB, db *objdb.DB) kv {
	t.Helper()
	kvs, _, err := db.List(t.Context(), "/contiv.io/lock/"+mastercfg.LeaderLock+"/")
	if err != nil || len(kvs) == 0 {
		t.Fatalf("%d candidates, %v", len(kvs), err)
	}
	return slices.MinFunc(kvs, func(a, b kv) int { return int(a.CreateRevision - b.CreateRevision) })
}

func TestASuccessorDoesNotListTheStore(t *testing.T) {
	storetest.Open(t)
	first, _ := leader(t, run(t))
	first.ok("POST", "/api/v1/networks/default:web/", webNetwork)
	// A successor without a processor for a second lists after all: of three, one must not.
	const successions = 3
	for at := 1; ; at++ {
		log, hook := logtest.NewNullLogger()
		said := func(what string) bool {
			return slices.ContainsFunc(hook.AllEntries(), func(e *logrus.Entry) bool { return e.Message == what })
		}
		next := run(t, func(c *Config) { c.Store.Log = logrus.NewEntry(log) })
		testkit.Eventually(t, time.Minute, "the successor has read the store", func() bool { return said("standby has read the store") })
		if code, answer, err := first.endpoint(fmt.Sprint("before", at)); err != nil || code != http.StatusOK {
			t.Errorf("%d %s %v", code, answer, err)
		}
		first.shut()
		leader(t, next)
		if code, answer, err := next.endpoint(fmt.Sprint("after", at)); err != nil || code != http.StatusOK || !strings.Contains(answer, fmt.Sprintf(`"ipAddress":"10.7.0.%d"`, 2*at)) {
			t.Errorf("endpoint %d gets %d %s %v", 2*at, code, answer, err)
		}
		if !said("the state is listed") {
			return
		}
		if at == successions {
			t.Fatalf("the state was listed at the begin of each of %d terms", successions)
		}
		first = next
	}
}

func TestADeposedLeaderWritesNothingAndFollows(t *testing.T) {
	storetest.Open(t)
	a, b := run(t), run(t)
	first, others := leader(t, a, b)
	first.ok("POST", "/api/v1/networks/default:web/", webNetwork)
	usurp(t)
	// The deposed leader finds out with its first write, and its successor carries it out.
	testkit.Eventually(t, time.Minute, "the other leads", func() bool {
		_, _, _ = first.endpoint("probe")
		return others[0].leads() && !first.leads()
	})
	for i, n := range []*node{first, others[0]} {
		if code, answer, err := n.endpoint(fmt.Sprintf("c%d", i)); err != nil || code != http.StatusOK {
			t.Errorf("%d %s %v", code, answer, err)
		}
	}
}

func TestALeaderThatWasStoppedForLongerThanItsTermReadsNothing(t *testing.T) {
	storetest.Open(t)
	var ahead atomic.Int64
	stopped := run(t, func(cfg *Config) {
		cfg.Store.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	leader(t, stopped)
	db := storetest.Connect(t)
	term := oldest(t, db).CreateRevision
	stopped.ok("GET", "/api/v1/tenants/", "")
	ahead.Store(int64(time.Hour)) // usually no timer that would end the term has fired
	// If one has, the netmaster may lead again by now, in another term.
	if code, answer, err := stopped.try("GET", "/api/v1/tenants/", ""); err != nil || code == http.StatusOK && oldest(t, db).CreateRevision == term {
		t.Errorf("read after the term: %d %s %v", code, answer, err)
	}
}

func TestWorkGoesOnWhileLeadersComeAndGo(t *testing.T) {
	storetest.Open(t)
	nodes := []*node{run(t), run(t), run(t)}
	first, _ := leader(t, nodes...)
	first.ok("POST", "/api/v1/networks/default:web/", webNetwork)

	var mu sync.Mutex
	addresses := map[string]string{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := range 50 {
				container := fmt.Sprintf("c%d-%d", client, i)
				for try := 0; ; try++ {
					code, answer, err := nodes[(client+try)%len(nodes)].endpoint(container)
					if err == nil && code == http.StatusOK {
						var ep mastercfg.CreateEndpointResponse
						if err := json.Unmarshal([]byte(answer), &ep); err != nil {
							t.Error(err)
						}
						mu.Lock()
						if other := addresses[ep.EndpointConfig.IPAddress]; other != "" {
							t.Errorf("%s went to %s and %s", ep.EndpointConfig.IPAddress, other, container)
						}
						addresses[ep.EndpointConfig.IPAddress] = container
						mu.Unlock()
						break
					}
					if ctx.Err() != nil || err == nil && code != 502 && code != 503 {
						t.Errorf("%s: %d %s %v", container, code, answer, err)
						return
					}
				}
			}
		})
	}
	for range 3 {
		before, _ := leader(t, nodes...)
		usurp(t)
		testkit.Eventually(t, time.Minute, "the deposed leader stands back", func() bool {
			_, _, _ = before.endpoint("probe") // it finds out with a write, and the clients may have done theirs
			return !before.leads()
		})
	}
	clients.Wait()
	if len(addresses) != 200 {
		t.Errorf("%d endpoints", len(addresses))
	}
}

func TestARestartFindsEverythingAndRepairsWhatIsDamaged(t *testing.T) {
	db := storetest.Open(t)
	n := run(t)
	leader(t, n)
	n.ok("POST", "/api/v1/networks/default:web/", webNetwork)
	if code, answer, err := n.endpoint("c1"); err != nil || code != 200 {
		t.Fatal(code, answer, err)
	}
	n.shut()
	before := storetest.Dump(t, db)
	if _, _, err := db.Txn(t.Context(), txnPut(mastercfg.VXLANConfigKey, "{")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Txn(t.Context(), txnPut(mastercfg.EndpointPrefix+"junk", "nonsense")); err != nil {
		t.Fatal(err)
	}
	n = run(t)
	leader(t, n)
	before[mastercfg.EndpointPrefix+"junk"] = "nonsense" // reported and left alone
	after := storetest.Dump(t, db)
	for key := range before {
		if before[key] != after[key] {
			t.Errorf("%s:\n got %s\nwant %s", key, after[key], before[key])
		}
	}
	if _, answer, _ := n.endpoint("c2"); !strings.Contains(answer, `"ipAddress":"10.7.0.2"`) {
		t.Errorf("next endpoint: %s", answer)
	}
}

func TestFlagsDoNotOverwriteWhatUsersSet(t *testing.T) {
	storetest.Open(t)
	n := run(t)
	leader(t, n)
	n.ok("POST", "/api/v1/globals/global/", `{"name":"global","arpMode":"flood","vlans":"5-50","vxlans":"100-200","pvtSubnet":"172.20.0.0/16"}`)
	n.ok("POST", "/api/v1/networks/default:web/", webNetwork)
	n.shut()
	n = run(t, func(c *Config) { c.API.Defaults.FwdMode = "bridge" })
	leader(t, n)
	const want = `{"key":"global","arpMode":"flood","fwdMode":"routing","name":"global","networkInfraType":"default","pvtSubnet":"172.20.0.0/16","vlans":"5-50","vxlans":"100-200"}`
	if got := n.ok("GET", "/api/v1/globals/global/", ""); got != want {
		t.Errorf("got %s", got)
	}
	n.ok("DELETE", "/api/v1/networks/default:web/", "")
	n.shut()
	n = run(t, func(c *Config) { c.API.Defaults.FwdMode = "bridge" })
	leader(t, n)
	if got := n.ok("GET", "/api/v1/globals/global/", ""); got != strings.Replace(want, "routing", "bridge", 1) {
		t.Errorf("without networks the flag applies: %s", got)
	}
}

// holder is a lock with a holder that the test sets.
type holder func() (string, error)

func (h holder) Holder(context.Context, string) (string, error) { return h() }

func TestFollowersWithoutALeaderSaySo(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := silent.Addr().String()
	silent.Close()
	follower := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		newProxy(holder(func() (string, error) { return "127.0.0.1:1", nil }), "127.0.0.1:1", new(certificates), testkit.Quiet()).ServeHTTP(w, r)
	}))
	t.Cleanup(follower.Close)
	for name, c := range map[string]struct {
		holder holder
		header string
		code   int
		text   string
	}{
		"nobody leads":             {func() (string, error) { return "", fault.New(fault.NotFound, "key not found") }, "", 500, "Leader not found"},
		"the lock names this one":  {func() (string, error) { return "127.0.0.1:1", nil }, "", 500, "Leader not found"},
		"the leader is gone":       {func() (string, error) { return gone, nil }, "", 502, "leader does not answer"},
		"the holder only forwards": {func() (string, error) { return follower.Listener.Addr().String(), nil }, "", 500, "Leader not found"},
		"already forwarded":        {func() (string, error) { return gone, nil }, "someone", 500, "netmaster 127.0.0.1:1 does not lead"},
		"the store is away": {func() (string, error) { return "", fault.New(fault.Unavailable, "etcd at x: no answer") }, "",
			500, "etcd at x: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(c.holder, "127.0.0.1:1", new(certificates), testkit.Quiet())
			r := httptest.NewRequest("GET", "/api/v1/tenants/", nil)
			if c.header != "" {
				r.Header.Set(forwardedHeader, c.header)
			}
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != c.code || !strings.HasPrefix(w.Body.String(), c.text) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// With a store that netmaster does not embed, check gets the endpoints that do not answer: netmaster continues
// with the others.
func TestEndpointsOfTheStoreThatDoNotAnswerAreInTheStatus(t *testing.T) {
	gone := "http://" + testkit.FreeAddress()
	n, _ := leader(t, run(t, func(c *Config) { c.Store.Endpoints = append(c.Store.Endpoints, gone) }))
	var s contivmodel.Status
	if err := json.Unmarshal([]byte(n.ok("GET", "/api/v1/status/", "")), &s); err != nil {
		t.Fatal(err)
	}
	if !s.Store.Healthy || !slices.Equal(s.Store.Missing, []string{gone}) {
		t.Errorf("healthy: %t, missing: %q; want only %q to be missing", s.Store.Healthy, s.Store.Missing, gone)
	}
}
