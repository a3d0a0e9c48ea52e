package gate

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// A tenant loses its last endpoint on a node and gets another one while it lingers. A watch continues if its listing
// had the tenant's records at every gate; all others list again.
func TestAWatchContinuesWhenATenantReturns(t *testing.T) {
	const never = math.MaxInt64
	x := newIndex(nil, nil)
	x.nodes["h1"] = mastercfg.Joined{}
	for _, by := range []string{"h1", everyNode} {
		x.serves = make(map[string]map[string]*service)
		x.serve(by, "red", 1, 5)
		x.serve(by, "red", -1, 9)
		x.serve(by, "red", 1, 20)
		for l, want := range map[listing]int64{
			{6, 8}: 0, {9, 8}: 0,
			{5, 8}:     20, // before the first endpoint
			{6, 9}:     20, // perhaps when there was none
			{6, never}: 20, // not known when
			{12, 14}:   20, {20, 30}: 20,
			{21, 30}: 0, {21, never}: 0,
		} {
			if got := x.lastAdmission("h1", l); got != want {
				t.Errorf("%+v by %q: it lists again after %d, want %d", l, by, got, want)
			}
			if got := x.sees("h1", scope{tenant: "red"}, l); got != (want == 0) {
				t.Errorf("%+v by %q: it sees the tenant: %t", l, by, got)
			}
			x.nodes["h1"] = mastercfg.Joined{Tenants: []string{"blue"}} // the next node of the name, or the same with fewer rights
			if x.sees("h1", scope{tenant: "red"}, l) {
				t.Errorf("%+v by %q: it sees a tenant that it may not serve", l, by)
			}
			x.nodes["h1"] = mastercfg.Joined{}
		}
		x.serve(by, "red", -1, 25)
		x.serve(by, "red", 1, 40)
		for l, want := range map[listing]int64{{6, 8}: 0, {12, 14}: 40, {22, 24}: 0, {22, 25}: 40} {
			if got := x.lastAdmission("h1", l); got != want {
				t.Errorf("%+v by %q: it lists again after %d, want %d after the second time", l, by, got, want)
			}
		}
		x.serve(by, "red", -1, 50)
		x.prune(time.Now().Add(time.Hour))
		x.serve(by, "red", 1, 60)
		if got := x.lastAdmission("h1", listing{6, 8}); got != 60 {
			t.Errorf("it lists again after %d of a tenant that was dropped, want 60", got)
		}
	}
}

// A tenant that comes and goes for years costs no more than so many periods.
func TestPeriodsAreBounded(t *testing.T) {
	var s served
	for i := range int64(10 * keptPeriods) {
		s.begin(10*i + 1)
		s.until = 10*i + 5
	}
	if len(s.earlier) != keptPeriods || cap(s.earlier) > 4*keptPeriods {
		t.Errorf("%d periods are kept in %d places, want %d", len(s.earlier), cap(s.earlier), keptPeriods)
	}
	first := s.earlier[0]
	if !s.had(listing{first.from + 1, first.from + 1}) || s.had(listing{first.from - 9, first.from - 9}) {
		t.Errorf("the oldest that is kept is not the only one of the two that counts: %v", first)
	}
}

// When VLANs begin to be routed, a node with an endpoint in one sees all tenants, which it did not before.
func TestNoPeriodBeforeVLANsWereRouted(t *testing.T) {
	x := newIndex(nil, nil)
	x.nodes["h1"] = mastercfg.Joined{}
	for rev, step := range []int{1, -1, 1, -1} {
		x.serve("h1", everything, step, int64(5*rev+5))
	}
	x.setMode([]byte(text(t, mastercfg.GlobConfig{FwdMode: "routing"})), 30)
	x.serve("h1", everything, 1, 40)
	for _, l := range []listing{{6, 8}, {16, 18}, {22, 25}} {
		if got := x.lastAdmission("h1", l); got != 40 {
			t.Errorf("%+v: it lists again after %d, want 40", l, got)
		}
	}
}

// isDated reports whether a gate knows how old the listings of its watches are at most, and has some.
func (g *running) isDated() bool {
	g.streams.mu.Lock()
	defer g.streams.mu.Unlock()
	some := false
	for w := range g.streams.all {
		w.mu.Lock()
		for _, one := range w.watches {
			if some = true; one.latest == math.MaxInt64 {
				w.mu.Unlock()
				return false
			}
		}
		w.mu.Unlock()
	}
	return some
}

// The pod of a tenant on a node is replaced: the node hears of the next one without another listing.
func TestTheNextPodOfATenantCausesNoListing(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	g := b.open(func(c *Config) { c.Linger = 12 * time.Second })
	n := b.through(b.join("h1", []string{"192.0.2.1"}), g)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	_, rev, err := n.List(t.Context(), mastercfg.StateRoot)
	if err != nil {
		t.Fatal(err)
	}
	client, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	heard := client.Watch(t.Context(), mastercfg.StateRoot, clientv3.WithPrefix(), clientv3.WithRev(rev+1), clientv3.WithCreatedNotify())
	if first := nextOf(t, heard); first.Err() != nil {
		t.Fatal(first.Err())
	}
	testkit.Eventually(t, soon, "the listing is dated", g.isDated)
	for i := range 3 {
		last, next := endpointKey("blue", "net", fmt.Sprint("c", i+1)), fmt.Sprint("c", i+2)
		b.remove(last)
		b.endpoint("blue", "net", next, "h1")
		want := []string{"DELETE " + last, "PUT " + endpointKey("blue", "net", next)}
		for len(want) > 0 {
			news := nextOf(t, heard)
			if news.Err() != nil {
				t.Fatalf("pod %s: %v", next, news.Err())
			}
			for _, e := range news.Events {
				if got := fmt.Sprintf("%s %s", e.Type, e.Kv.Key); got != want[0] {
					t.Fatalf("it hears of %s, want %s", got, want[0])
				}
				want = want[1:]
			}
		}
	}
}

// A node lists through a gate that has dropped a tenant, and watches through one where the tenant lingers. Its watch
// begins at its newest record, as that of a mirror does, which is from a time when it had an endpoint of the tenant. It
// lists again nevertheless when the tenant returns, as it lacks the tenant's older records.
func TestWhoHasListedElsewhereListsAgainWhenATenantReturns(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	b.endpoint("blue", "net", "c2", "h2")
	lingers := b.open(func(c *Config) { c.Linger = 12 * time.Second })
	knows := b.follow(b.through(b.join("h3", []string{"192.0.2.3"}), lingers), mastercfg.StateRoot)
	drops := b.open(func(c *Config) { c.Linger = 100 * time.Millisecond })
	n := b.through(b.join("h1", []string{"192.0.2.1"}), drops)
	testkit.Eventually(t, soon, "the gate where the tenant lingers serves", knows.Synced)
	newest := mastercfg.K8sNodePrefix + "h9"
	b.put(newest, struct{}{})
	testkit.Eventually(t, soon, "the gates serve", func() bool { return n.Ping(t.Context()) == nil && knows.has(newest) })
	b.remove(endpointKey("blue", "net", "c1"))
	var from int64
	testkit.Eventually(t, soon, "the tenant is dropped", func() bool {
		kvs, _, err := n.List(t.Context(), mastercfg.StateRoot)
		if err != nil || len(kvs) != 1 || kvs[0].Key != newest {
			return false
		}
		from = kvs[0].ModRevision
		return true
	})
	drops.stop()
	if err := n.SetEndpoints(lingers.url); err != nil {
		t.Fatal(err)
	}
	client, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	heard := client.Watch(t.Context(), mastercfg.StateRoot, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithCreatedNotify())
	if first := nextOf(t, heard); first.Err() != nil {
		t.Fatal(first.Err())
	}
	testkit.Eventually(t, soon, "the listing is dated", lingers.isDated)
	next := endpointKey("blue", "net", "c3")
	b.endpoint("blue", "net", "c3", "h1")
	for {
		news := nextOf(t, heard)
		if news.CompactRevision != 0 {
			return
		}
		for _, e := range news.Events {
			if string(e.Kv.Key) == next {
				t.Fatalf("it hears of %s, without the other endpoints of the tenant", next)
			}
		}
	}
}

// nextOf returns the next answer to a watch.
func nextOf(t *testing.T, heard clientv3.WatchChan) clientv3.WatchResponse {
	t.Helper()
	select {
	case news, ok := <-heard:
		if !ok {
			t.Fatal("the watch has ended without a reason")
		}
		return news
	case <-time.After(soon):
		t.Fatal("nothing is heard")
	}
	return clientv3.WatchResponse{}
}

// A listing has the same tenants on all of its pages: one that has begun before a tenant was dropped begins anew.
func TestAListingIsNotContinuedWithoutATenant(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open(func(c *Config) { c.Linger = 100 * time.Millisecond }))
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	_, rev, err := n.List(t.Context(), mastercfg.StateRoot)
	if err != nil {
		t.Fatal(err)
	}
	b.remove(endpointKey("blue", "net", "c1"))
	testkit.Eventually(t, soon, "the tenant is dropped", func() bool {
		kvs, _, err := n.List(t.Context(), mastercfg.StateRoot)
		return err == nil && len(kvs) == 0
	})
	if kvs, _, err := n.ListAt(t.Context(), mastercfg.StateRoot, rev); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("revision %d has %d keys, %v", rev, len(kvs), err)
	}
}

// A store that was restored has lower revisions: a node lists once, and watches from there.
func TestANodeWatchesAStoreThatWentBack(t *testing.T) {
	x := newIndex(nil, nil)
	x.nodes["h1"] = mastercfg.Joined{}
	key, value := endpointKey("blue", "net", "c1"), []byte(`{"netID":"net.blue","homingHost":"h1"}`)
	network := mirror.Event{Key: mastercfg.NetworkPrefix + "net.blue", Value: []byte(`{"tenant":"blue"}`), ModRevision: 400, CreateRevision: 400}
	x.apply(mirror.Batch{Revision: 900, Snapshot: true, Events: []mirror.Event{network, {Key: key, Value: value, ModRevision: 880, CreateRevision: 880}}})
	x.apply(mirror.Batch{Revision: 910, Events: []mirror.Event{{Key: key, ModRevision: 910}}})
	x.prune(time.Now().Add(time.Hour))
	x.apply(mirror.Batch{Revision: 920, Events: []mirror.Event{{Key: key, Value: value, ModRevision: 920, CreateRevision: 920}}})
	x.apply(mirror.Batch{Revision: 500, Another: true, Events: []mirror.Event{network, {Key: key, Value: value, ModRevision: 450, CreateRevision: 450}}})
	now := time.Now()
	w := &watch{key: mastercfg.StateRoot, end: mastercfg.StateRoot + "z", since: 501, next: 501, lost: x.lossesOf("h1", now).times, era: x.era, latest: math.MaxInt64, begun: now, told: now}
	if m := x.message("h1", w, now); m != nil {
		t.Errorf("it is told to list up to %d, at revision 500", m.CompactRevision)
	}
	group := mirror.Event{Key: mastercfg.EndpointGroupPrefix + "g:blue", Value: []byte("{}"), ModRevision: 501, CreateRevision: 501}
	x.apply(mirror.Batch{Revision: 501, Events: []mirror.Event{group}})
	if m := x.message("h1", w, now); m == nil || len(m.Events) != 1 {
		t.Errorf("it hears %v, want the tenant's group", m)
	}
}
