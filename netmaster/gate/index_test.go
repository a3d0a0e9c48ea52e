package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// A node that has seen a tenant before, or may not see it, does not list again because of a service for hosts in
// it; and when the tenant has no such service any more, nodes do not list at the same moment.
func TestNotAllNodesListAtOnce(t *testing.T) {
	x := newIndex(nil, nil)
	x.nodes["h1"], x.nodes["h2"], x.nodes["h3"] = mastercfg.Joined{}, mastercfg.Joined{}, mastercfg.Joined{Tenants: []string{"blue"}}
	x.serve("h1", "red", 1, 5)
	x.serve(everyNode, "red", 1, 10)
	for host, want := range map[string]int64{"h1": 0, "h2": 10, "h3": 0} {
		if got := x.lastAdmission(host, listing{before: 8, latest: math.MaxInt64}); got != want {
			t.Errorf("%s came to see a tenant at %d, want %d", host, got, want)
		}
	}
	x.serve(everyNode, "red", -1, 11)
	x.spread = time.Minute
	x.prune(time.Now().Add(time.Hour))
	now := time.Now()
	lost := func(after time.Duration) (n int) {
		for i := range 200 {
			n += x.lossesOf(fmt.Sprintf("node-%d", i), now.Add(after)).times
		}
		return n
	}
	if start, half, end := lost(0), lost(30*time.Second), lost(time.Minute); start > 20 || half < 50 || half > 150 || end != 200 {
		t.Errorf("%d of 200 at once, %d after half of the time, %d after all of it", start, half, end)
	}
	if got := x.lastAdmission("h1", listing{before: 8, latest: math.MaxInt64}); got != 0 {
		t.Errorf("h1 came to see a tenant at %d when another reason for it went", got)
	}
}

// A tenant returns to a node while it lingers here. Another gate may have dropped it, and the node may have listed
// there in between: it has to list again.
func TestATenantThatComesBackIsListed(t *testing.T) {
	x := newIndex(nil, nil)
	x.nodes["h1"] = mastercfg.Joined{}
	x.serve("h1", "red", 1, 5)
	x.serve("h1", "red", -1, 6)
	x.serve("h1", "red", 1, 10)
	x.serve("h1", "red", 1, 11) // was there
	if got := x.lastAdmission("h1", listing{before: 8, latest: math.MaxInt64}); got != 10 {
		t.Errorf("it came back at %d, want 10", got)
	}
}

// A node for which other tenants are permitted now lists again, as it sees more or less; one that joins again for the same ones does not.
func TestANodeListsAgainWhenOtherTenantsArePermitted(t *testing.T) {
	x := newIndex(nil, nil)
	for i, step := range []struct {
		tenants []string
		times   int
	}{{[]string{"blue"}, 1}, {[]string{"blue"}, 1}, {[]string{"blue", "red"}, 2}, {[]string{"red"}, 3}, {nil, 4}, {nil, 4}} {
		joined := mastercfg.Joined{Host: "h1", Key: "k", Tenants: step.tenants}
		x.take(mirror.Event{Key: mastercfg.NodePrefix + "h1", Value: []byte(text(t, joined))}, int64(i+1))
		if got := x.lossesOf("h1", time.Now()).times; got != step.times {
			t.Errorf("step %d, for %q: listed again %d times, want %d", i, step.tenants, got, step.times)
		}
	}
}

// A node all of whose tenants were deleted sees none, while one that was limited to none sees all.
func TestANodeWithoutATenantLeftSeesNone(t *testing.T) {
	x := newIndex(nil, nil)
	x.nodes["all"], x.nodes["none"] = mastercfg.Joined{}, mastercfg.Joined{Tenants: mastercfg.WithoutTenant([]string{"blue"}, "blue")}
	for _, host := range []string{"all", "none"} {
		x.serve(host, "blue", 1, 5)
		if sees := x.sees(host, scope{tenant: "blue"}, listing{before: 8, latest: math.MaxInt64}); sees != (host == "all") {
			t.Errorf("%s sees the next tenant of the name: %v", host, sees)
		}
	}
}

// entryOf returns the registration of a host at the i-th address of all.
func entryOf(t *testing.T, host string, i int) (key string, value []byte) {
	t.Helper()
	s := objdb.Service{ServiceName: mastercfg.AgentService, HostAddr: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Port: 9002, Hostname: host}
	value, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return s.Key(), value
}

// A registration costs the same among 32 times as many nodes.
func TestARegistrationCostsTheSameAmongManyNodes(t *testing.T) {
	const few, many, times, again = 500, 16000, 200, 20
	keys, values := make([]string, many), make([][]byte, many)
	small, large := newIndex(nil, nil), newIndex(nil, nil)
	for i := range many {
		keys[i], values[i] = entryOf(t, fmt.Sprint("node-", i), i)
		if i < few {
			small.setEntry(keys[i], values[i])
		}
		large.setEntry(keys[i], values[i])
	}
	register := func(x *index) func() {
		return func() {
			for i := range again {
				x.setEntry(keys[i], values[i])
			}
		}
	}
	if took := testkit.Least(t, times, register(small), register(large)); took[1] > 4*took[0] {
		t.Errorf("%d registrations take %v among %d nodes, and %v among %d", again, took[0], few, took[1], many)
	}
}

// A registration belongs to its last writer. It counts for no node once it is deleted or cannot be parsed.
func TestARegistrationCountsForWhoHasIt(t *testing.T) {
	x := newIndex(nil, nil)
	a, ofH1 := entryOf(t, "h1", 1)
	b, alsoOfH1 := entryOf(t, "h1", 2)
	_, ofH2 := entryOf(t, "h2", 1)
	for _, step := range []struct {
		what, key string
		value     []byte
		want      map[string]int
	}{
		{"one comes", a, ofH1, map[string]int{"h1": 1}},
		{"another one comes", b, alsoOfH1, map[string]int{"h1": 2}},
		{"one is renewed", a, ofH1, map[string]int{"h1": 2}},
		{"one moves to another host", a, ofH2, map[string]int{"h1": 1, "h2": 1}},
		{"one goes", b, nil, map[string]int{"h2": 1}},
		{"it goes again", b, nil, map[string]int{"h2": 1}},
		{"one is overwritten by something else", a, []byte("{"), map[string]int{}},
		{"one comes again", a, ofH1, map[string]int{"h1": 1}},
		{"one is overwritten by one without a host", a, []byte("{}"), map[string]int{}},
	} {
		x.setEntry(step.key, step.value)
		total := 0
		for _, n := range step.want {
			total += n
		}
		if !maps.Equal(x.registered, step.want) || len(x.entries) != total {
			t.Errorf("%s: %v, of %v, want %v", step.what, x.registered, x.entries, step.want)
		}
	}
	for i := range maxEntries {
		x.setEntry(entryOf(t, "h3", 10+i))
	}
	x.nodes["h3"] = mastercfg.Joined{Key: "k", Addresses: []string{"10.0.0.10", "10.0.0.99"}}
	for i, refused := range map[int]bool{99: true, 10: false} { // one more than a node may have; one of its own
		key, value := entryOf(t, "h3", i)
		put := &pb.PutRequest{Key: []byte(key), Value: value, Lease: mastercfg.LeasesOf("h3") | 1}
		_, _, err := x.judge(keyholder{"h3", "k"}, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}})
		if (err != nil) != refused {
			t.Errorf("registration %d of a node that has %d: %v", i, maxEntries, err)
		}
	}
}

// Nodes are added and removed for years: the names of removed ones are dropped, the others are kept once.
func TestNamesOfWhatIsGoneAreForgotten(t *testing.T) {
	x := newIndex(nil, nil)
	put := func(id, host string) {
		x.take(mirror.Event{Key: mastercfg.EndpointPrefix + id, Value: fmt.Appendf(nil, `{"homingHost":%q}`, host)}, 1)
	}
	put("stays", "node-that-stays")
	for i := range 20 * fewNames {
		put("moves", fmt.Sprint("node-", i))
	}
	if n := len(x.names); n > 2*fewNames {
		t.Errorf("%d names are kept of 2 that are in use", n)
	}
	if _, kept := x.names["node-that-stays"]; !kept {
		t.Error("a name that is in use was forgotten")
	}
	// As many as are in use are kept, however many.
	for i := range 3 * fewNames {
		put(fmt.Sprint("e", i), fmt.Sprint("node-", i))
	}
	for _, r := range x.records {
		if _, kept := x.names[r.host]; !kept {
			t.Fatalf("the name %s, which is in use, was forgotten", r.host)
		}
	}
}
