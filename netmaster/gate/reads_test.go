package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/secret"
)

const soon = time.Minute

func TestANodeSeesTheTenantsThatItServes(t *testing.T) {
	b := newBed(t)
	for _, tenant := range []string{"blue", "red"} {
		b.network(tenant, "net")
		b.put(mastercfg.EndpointGroupPrefix+"web:"+tenant, mastercfg.EndpointGroupState{TenantName: tenant})
		b.put(mastercfg.PolicyRulePrefix+tenant+":web:"+tenant+":p:"+tenant+":p:1:inRx", mastercfg.CfgPolicyRule{})
		b.put(mastercfg.PolicyPrefix+tenant+":web:"+tenant+":p", mastercfg.EpgPolicy{})
		b.put(mastercfg.VRFPrefix+tenant, mastercfg.VRFState{ID: tenant, VRF: 1})
		b.put(mastercfg.ServiceLBPrefix+"s:"+tenant, struct{}{})
		b.put(mastercfg.ProviderKey("s:"+tenant, "2001:db8::1"), struct{}{})
	}
	b.put(mastercfg.BgpPrefix+"h1", mastercfg.CfgBgpState{Hostname: "h1", Password: "secret1"})
	b.put(mastercfg.BgpPrefix+"h2", mastercfg.CfgBgpState{Hostname: "h2", Password: "secret2"})
	b.put(mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPod{Name: "own"})
	b.put(mastercfg.K8sPodKey("h2", "u2"), mastercfg.K8sPod{Tenant: "red"})
	b.put(mastercfg.ModelKey("tenant", "blue"), struct{}{})
	b.endpoint("blue", "net", "c1", "h1")
	b.endpoint("blue", "net", "c2", "h2")
	b.endpoint("red", "net", "c3", "h2")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())

	kvs, _, err := n.List(t.Context(), mastercfg.StateRoot)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range kvs {
		keys = append(keys, strings.TrimPrefix(kv.Key, mastercfg.StateRoot))
		if strings.Contains(string(kv.Value), "secret2") {
			t.Errorf("%s: %s", kv.Key, kv.Value)
		}
	}
	want := []string{"bgp/h1", "bgp/h2", "endpointGroups/web:blue", "eps/net.blue-c1", "eps/net.blue-c2", "k8sPod/h1/u1", "nets/net.blue",
		"policyRule/blue:web:blue:p:blue:p:1:inRx", "provider/s:blue/2001:db8::1", "serviceLB/s:blue", "vrfs/blue"}
	if !slices.Equal(keys, want) {
		t.Errorf("got  %q\nwant %q", keys, want)
	}
	if kv, err := n.Get(t.Context(), mastercfg.BgpPrefix+"h1"); err != nil || !strings.Contains(string(kv.Value), "secret1") {
		t.Errorf("own password: %s, %v", kv.Value, err)
	}
	if _, err := n.Get(t.Context(), endpointKey("red", "net", "c3")); err == nil {
		t.Error("an endpoint of a tenant that is not served is read")
	}
}

// Because of dots in names, records of two tenants may have the same key, one after the other. Old revisions
// remain the first tenant's.
func TestThePastOfAKeyIsWhoseItWasThen(t *testing.T) {
	b := newBed(t)
	b.network("b", "web.a")
	key := mastercfg.NetworkPrefix + mastercfg.NetworkID("b", "web.a")
	before, err := b.db.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	b.remove(key)
	b.network("a.b", "web")
	b.network("a.b", "other")
	b.endpoint("a.b", "other", "c1", "h1")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	client, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := func(opts ...clientv3.OpOption) int64 {
		t.Helper()
		answer, err := client.Get(t.Context(), key, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Count
	}
	if seen() != 1 {
		t.Error("a node does not see a network of a tenant that it serves")
	}
	if seen(clientv3.WithRev(before.ModRevision)) != 0 {
		t.Error("a node sees what was under the key before, of a tenant that it does not serve")
	}
	b.remove(key)
	testkit.Eventually(t, 10*time.Second, "the gate knows that it is gone", func() bool { return seen() == 0 })
	if seen(clientv3.WithRev(before.ModRevision)) != 0 {
		t.Error("the same, when the second is gone, too")
	}
}

// A secret that is encrypted in the store is sent decrypted to the node that needs it, and to no other.
func TestANodeIsToldItsPasswordThatIsSealedInTheStore(t *testing.T) {
	b, keys := newBed(t), keyring.In(t.TempDir())
	speaker := func(host, place, password string) mastercfg.CfgBgpState {
		t.Helper()
		sealed, err := keys.Seal(mastercfg.ModelKey("Bgp", place), password)
		if err != nil {
			t.Fatal(err)
		}
		return mastercfg.CfgBgpState{Hostname: host, As: "1", Password: secret.Text(sealed)}
	}
	b.put(mastercfg.BgpPrefix+"h1", speaker("h1", "h1", "first"))
	b.put(mastercfg.BgpPrefix+"h2", speaker("h2", "h2", "theirs"))
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open(func(c *Config) { c.Open = keys.Open }))
	f := b.follow(n, mastercfg.StateRoot)
	is := func(host, want string) {
		t.Helper()
		soonIs := func(text string) bool {
			var record mastercfg.CfgBgpState
			return json.Unmarshal([]byte(text), &record) == nil && string(record.Password) == want && record.As == "1"
		}
		testkit.Eventually(t, soon, "h1 hears the password of "+host, func() bool { return soonIs(f.value(mastercfg.BgpPrefix + host)) })
		if kv, err := n.Get(t.Context(), mastercfg.BgpPrefix+host); err != nil || !soonIs(string(kv.Value)) {
			t.Errorf("h1 reads of %s: %s, %v", host, kv.Value, err)
		}
	}
	is("h1", "first")
	is("h2", "")
	b.put(mastercfg.BgpPrefix+"h2", speaker("h2", "h2", "theirs, another"))
	b.put(mastercfg.BgpPrefix+"h1", speaker("h1", "h1", "second"))
	is("h1", "second")
	is("h2", "")
	b.put(mastercfg.BgpPrefix+"h1", mastercfg.CfgBgpState{Hostname: "h1", As: "1", Password: "of before"})
	is("h1", "of before")
}

// A netmaster without the key sends a node none of its password, and all of it once it has the key.
func TestANodeIsToldItsPasswordWhenTheKeyIsThere(t *testing.T) {
	b, keys := newBed(t), keyring.In(t.TempDir())
	sealed, err := keys.Seal(mastercfg.ModelKey("Bgp", "h1"), "first")
	if err != nil {
		t.Fatal(err)
	}
	b.put(mastercfg.BgpPrefix+"h1", mastercfg.CfgBgpState{Hostname: "h1", As: "1", Password: secret.Text(sealed)})
	b.put(mastercfg.BgpPrefix+"h2", mastercfg.CfgBgpState{Hostname: "h2", As: "2"})
	var there atomic.Bool
	g := b.open(func(c *Config) {
		c.Open = func(place, text string) (string, error) {
			if !there.Load() {
				return "", errors.New("there is no such key")
			}
			return keys.Open(place, text)
		}
	})
	n := b.through(b.join("h1", []string{"192.0.2.1"}), g)
	f := b.follow(n, mastercfg.StateRoot)
	testkit.Eventually(t, soon, "h1 hears of h2", func() bool { return f.has(mastercfg.BgpPrefix + "h2") })
	if f.has(mastercfg.BgpPrefix + "h1") {
		t.Errorf("h1 hears %s", f.value(mastercfg.BgpPrefix+"h1"))
	}
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tells := func(want int) { // of both speakers, without their values
		t.Helper()
		for how, bare := range map[string]clientv3.OpOption{"keys": clientv3.WithKeysOnly(), "count": clientv3.WithCountOnly()} {
			got, err := c.Get(t.Context(), mastercfg.BgpPrefix, clientv3.WithPrefix(), bare)
			if err != nil || got.Count != int64(want) || slices.ContainsFunc(got.Kvs, func(kv *mvccpb.KeyValue) bool { return kv.Value != nil }) {
				t.Errorf("%s: %v, %v; want %d", how, got, err, want)
			}
		}
	}
	tells(1)
	there.Store(true)
	g.KeyringChanged()
	testkit.Eventually(t, soon, "h1 hears its password", func() bool {
		var record mastercfg.CfgBgpState
		return json.Unmarshal([]byte(f.value(mastercfg.BgpPrefix+"h1")), &record) == nil && record.Password == "first"
	})
	tells(2)
	if whole := (&watch{key: mastercfg.StateRoot, end: objdb.PrefixEnd(mastercfg.StateRoot)}); g.index.isDue("h1", whole) {
		t.Error("h1 has to list again, and again after that")
	}
}

// A node needs the classes of pods on other nodes, in the tenants that it serves, and gets nothing else about
// them.
func TestANodeKnowsTheClassesOfPodsElsewhere(t *testing.T) {
	b := newBed(t)
	for _, tenant := range []string{"blue", "red"} {
		b.network(tenant, "net")
		b.put(mastercfg.K8sPodKey("h2", tenant), mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: tenant, Tenant: tenant, Class: 7, Classed: true})
	}
	b.endpoint("blue", "net", "c1", "h1")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	f := b.follow(n, mastercfg.StateRoot)
	reads := func(key string) string {
		kv, err := n.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return string(kv.Value)
	}
	blue, red := mastercfg.K8sPodKey("h2", "blue"), mastercfg.K8sPodKey("h2", "red")
	testkit.Eventually(t, soon, "the pod of a tenant that is served", func() bool { return f.has(blue) })
	if want := `{"namespace":"","name":"","uid":"","class":7,"classed":true}`; f.value(blue) != want || reads(blue) != want {
		t.Errorf("followed %s, read %s, want %s", f.value(blue), reads(blue), want)
	}
	if f.has(red) {
		t.Errorf("a tenant that is not served: %s", f.value(red))
	}
	b.put(blue, mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: "blue", Tenant: "blue", Class: 8, Classed: true})
	testkit.Eventually(t, soon, "its other class", func() bool {
		return f.value(blue) == `{"namespace":"","name":"","uid":"","class":8,"classed":true}`
	})
	b.endpoint("red", "net", "c3", "h1")
	testkit.Eventually(t, soon, "the tenant that has come", func() bool { return f.has(red) })
	own := mastercfg.K8sPodKey("h1", "own")
	b.put(own, mastercfg.K8sPod{Namespace: "shop", Name: "web"})
	testkit.Eventually(t, soon, "its own, all of it", func() bool { return strings.Contains(f.value(own), "shop") })
	b.remove(blue)
	testkit.Eventually(t, soon, "it has gone", func() bool { return !f.has(blue) })
}

// Thousands of other tenants' records do not end a listing early.
func TestPagesAreFilled(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.network("red", "net")
	var txn objdb.Txn
	for i := range 2500 {
		tenant := "red"
		if i%1100 == 1099 {
			tenant = "blue"
		}
		txn.Puts = append(txn.Puts, objdb.KV{Key: fmt.Sprintf("%sg%04d:%s", mastercfg.EndpointGroupPrefix, i, tenant), Value: []byte("{}")})
		if len(txn.Puts) == 100 {
			if _, _, err := b.db.Txn(t.Context(), txn); err != nil {
				t.Fatal(err)
			}
			txn.Puts = nil
		}
	}
	b.endpoint("blue", "net", "c1", "h1")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	kvs, _, err := n.List(t.Context(), mastercfg.EndpointGroupPrefix)
	if err != nil || len(kvs) != 2 {
		t.Errorf("%d groups, %v", len(kvs), err)
	}
	b.endpoint("red", "net", "c2", "h1")
	if kvs, _, err = n.List(t.Context(), mastercfg.EndpointGroupPrefix); err != nil || len(kvs) != 2500 {
		t.Errorf("%d groups, %v", len(kvs), err)
	}
}

// When a node begins to serve a tenant, it gets all of its older records; those of a tenant that it no longer
// serves are removed after a while.
func TestAMirrorFollowsWhatANodeServes(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.network("red", "net")
	b.endpoint("blue", "net", "c1", "h1")
	b.endpoint("red", "net", "c2", "h2")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open(func(c *Config) { c.Linger = 500 * time.Millisecond }))
	f := b.follow(n, mastercfg.StateRoot)
	testkit.Eventually(t, soon, "the tenant that is served", func() bool { return f.has(endpointKey("blue", "net", "c1")) })
	b.endpoint("blue", "net", "c4", "h2")
	testkit.Eventually(t, soon, "its new endpoint", func() bool { return f.has(endpointKey("blue", "net", "c4")) })
	if f.has(endpointKey("red", "net", "c2")) || f.has(mastercfg.NetworkPrefix+"net.red") {
		t.Error("a tenant that is not served")
	}
	b.endpoint("red", "net", "c3", "h1")
	testkit.Eventually(t, soon, "the tenant that has come", func() bool {
		return f.has(endpointKey("red", "net", "c3")) && f.has(endpointKey("red", "net", "c2")) && f.has(mastercfg.NetworkPrefix+"net.red")
	})
	b.remove(endpointKey("red", "net", "c3"))
	testkit.Eventually(t, soon, "the tenant has gone", func() bool {
		return !f.has(endpointKey("red", "net", "c2")) && !f.has(mastercfg.NetworkPrefix+"net.red") && f.has(endpointKey("blue", "net", "c4"))
	})
}

// Every node forwards to services that hosts reach, and has an endpoint of its own in infra networks; nodes with a
// token for other tenants do not.
func TestTenantsThatEveryNodeHasAPartInAreServedByAll(t *testing.T) {
	b := newBed(t)
	b.network("red", "net")
	gate := b.open(func(c *Config) { c.Linger = 500 * time.Millisecond })
	f := b.follow(b.through(b.join("h1", []string{"192.0.2.1"}), gate), mastercfg.StateRoot)
	others := b.follow(b.through(b.join("h2", []string{"192.0.2.2"}, "blue"), gate), mastercfg.StateRoot)
	for key, record := range map[string]any{
		mastercfg.K8sServiceKey("red", "ns", "s"): mastercfg.K8sService{},
		mastercfg.ServiceLBPrefix + "s:red":       mastercfg.CfgServiceLBState{NodePorts: []string{"30080:80:TCP"}},
		mastercfg.NetworkPrefix + "infra.red":     mastercfg.CfgNetworkState{Tenant: "red", PktTagType: "vxlan", NwType: "infra"},
	} {
		testkit.Eventually(t, soon, "nothing yet", func() bool { return f.Synced() && !f.has(mastercfg.NetworkPrefix+"net.red") })
		b.put(key, record)
		testkit.Eventually(t, soon, "the tenant of "+key, func() bool { return f.has(mastercfg.NetworkPrefix + "net.red") })
		forAll := mastercfg.K8sNodePrefix + "h9"
		b.put(forAll, struct{ After string }{key})
		testkit.Eventually(t, soon, "what came after", func() bool { return strings.Contains(others.value(forAll), key) })
		if others.has(mastercfg.NetworkPrefix + "net.red") {
			t.Errorf("with %s, a node that may not serve the tenant sees it", key)
		}
		b.remove(key)
	}
	b.put(mastercfg.ServiceLBPrefix+"inner:red", mastercfg.CfgServiceLBState{})
	testkit.Eventually(t, soon, "a service that hosts do not reach", func() bool { return !f.has(mastercfg.NetworkPrefix + "net.red") })
}

// With routed VLANs, a node with an endpoint in one of them sees all tenants.
func TestRoutedVLANsAreSharedByTenants(t *testing.T) {
	b := newBed(t)
	b.network("red", "net")
	b.put(mastercfg.NetworkPrefix+"lan.blue", mastercfg.CfgNetworkState{Tenant: "blue", PktTagType: "vlan"})
	b.endpoint("blue", "lan", "c1", "h1")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	f := b.follow(n, mastercfg.StateRoot)
	testkit.Eventually(t, soon, "its endpoint", func() bool { return f.has(endpointKey("blue", "lan", "c1")) })
	if f.has(mastercfg.NetworkPrefix + "net.red") {
		t.Error("another tenant's network while nothing is routed")
	}
	b.put(mastercfg.GlobalConfigKey, mastercfg.GlobConfig{FwdMode: "routing"})
	testkit.Eventually(t, soon, "the other tenant's network", func() bool { return f.has(mastercfg.NetworkPrefix + "net.red") })
	b.put(mastercfg.GlobalConfigKey, mastercfg.GlobConfig{FwdMode: "bridge"})
	testkit.Eventually(t, soon, "it has gone", func() bool { return !f.has(mastercfg.NetworkPrefix + "net.red") })
}

// After any events in any order, and whichever gate answers: in the end a mirror has the present records that its
// node serves, and nothing of a tenant that the node has never served.
func TestMirrorsHaveWhatTheirNodesServeInTheEnd(t *testing.T) {
	b := newBed(t)
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	tenants, hosts := []string{"t1", "t2", "t3", "t4"}, []string{"h1", "h2", "h3"}
	for _, tenant := range tenants {
		b.network(tenant, "net")
	}
	short := func(c *Config) { c.Linger = 100 * time.Millisecond }
	gates := []*running{b.open(short), b.open(short), b.open(func(c *Config) { c.Linger = 1200 * time.Millisecond })}
	mirrors, nodes := map[string]*follower{}, map[string]*node{}
	for i, host := range hosts {
		n := b.through(b.join(host, []string{fmt.Sprintf("192.0.2.%d", i+1)}), gates...)
		mirrors[host], nodes[host] = b.follow(n, mastercfg.StateRoot), n
	}
	homed, ever := map[string]string{}, map[string]bool{} // endpoint -> host; host and tenant
	for i := range 400 {
		tenant, name := tenants[random.IntN(len(tenants))], fmt.Sprintf("c%d", random.IntN(4))
		key := endpointKey(tenant, "net", name)
		switch random.IntN(6) {
		case 0, 1, 2:
			host := hosts[random.IntN(len(hosts))]
			b.endpoint(tenant, "net", name, host)
			homed[key], ever[host+" "+tenant] = host, true
		case 3:
			b.remove(key)
			delete(homed, key)
		case 4:
			b.put(mastercfg.EndpointGroupPrefix+fmt.Sprintf("g%d:%s", i%7, tenant), mastercfg.EndpointGroupState{TenantName: tenant})
		case 5: // a node goes to another netmaster
			if err := nodes[hosts[random.IntN(len(hosts))]].SetEndpoints(gates[1+random.IntN(2)].url); err != nil {
				t.Fatal(err)
			}
		}
		if i == 200 { // one netmaster is stopped
			gates[0].stop()
		}
	}
	all, _, err := b.db.List(t.Context(), mastercfg.StateRoot)
	if err != nil {
		t.Fatal(err)
	}
	for host, f := range mirrors {
		serves := map[string]bool{}
		for key, on := range homed {
			if on == host {
				serves[tenantOf(key)] = true
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		err := testkit.Poll(ctx, func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			want := 0
			for _, kv := range all {
				if serves[tenantOf(kv.Key)] && f.have[kv.Key] != string(kv.Value) {
					return fmt.Errorf("%s has %s of %s, want %s", host, f.have[kv.Key], kv.Key, kv.Value)
				}
				if serves[tenantOf(kv.Key)] {
					want++
				}
			}
			for key := range f.have {
				if serves[tenantOf(key)] {
					want--
				}
				if !ever[host+" "+tenantOf(key)] {
					return fmt.Errorf("%s has %s, which it has never served", host, key)
				}
			}
			if want != 0 {
				return fmt.Errorf("%s has %d keys more than there are", host, -want)
			}
			return nil
		})
		cancel()
		if err != nil {
			t.Error(err)
		}
	}
}

// tenantOf returns the tenant of a key of this test, whose names have no dots.
func tenantOf(key string) string {
	rest := strings.TrimPrefix(key, mastercfg.StateRoot)
	kind, id, _ := strings.Cut(rest, "/")
	switch kind {
	case "endpointGroups":
		_, tenant, _ := strings.Cut(id, ":")
		return tenant
	default:
		id = strings.TrimPrefix(id, "net.")
		tenant, _, _ := strings.Cut(id, "-")
		return tenant
	}
}
