package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/hostaddr"
)

func text(t testing.TB, record any) string {
	t.Helper()
	value, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

// entry is a registration of a node's tunnel end.
func entry(host, address string) objdb.Service {
	return objdb.Service{ServiceName: mastercfg.AgentVTEPService, Hostname: host, HostAddr: address, Port: 4789, TTL: 10}
}

// A node registers, renews, and reports as it would in etcd.
func TestANodeRegistersAndReports(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open(), b.open())
	agent := objdb.Service{ServiceName: mastercfg.AgentService, Hostname: "h1", HostAddr: "192.0.2.1", Port: 9002, Addresses: []string{"192.0.2.1", "172.17.0.1"}}
	ctx, stop := context.WithCancel(t.Context())
	registration, err := n.Register(ctx, 5*time.Second, agent, entry("h1", "192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	registered := func(count int) func() bool {
		return func() bool {
			kvs, _, err := b.db.List(t.Context(), objdb.ServicePrefix)
			return err == nil && len(kvs) == count
		}
	}
	testkit.Eventually(t, soon, "both entries", registered(2))
	registration.Update(entry("h1", "192.0.2.1"))
	testkit.Eventually(t, soon, "one entry", registered(1))
	b.remove(entry("h1", "192.0.2.1").Key())
	testkit.Eventually(t, soon, "the entry again, which somebody has deleted", registered(1))
	stop()
	if err := registration.Close(t.Context()); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, soon, "no entry", registered(0))

	id := "net.blue-c1"
	report := objdb.Txn{If: []objdb.Guard{objdb.Present(mastercfg.EndpointPrefix + id)}, Puts: []objdb.KV{
		{Key: mastercfg.OperEndpointPrefix + id, Value: []byte(text(t, mastercfg.OperEndpointState{ID: id, NetID: "net.blue", HomingHost: "h1", VtepIP: "192.0.2.1"}))}}}
	if _, ok, err := n.Txn(t.Context(), report); err != nil || !ok {
		t.Errorf("report: %t, %v", ok, err)
	}
	if _, err := n.Get(t.Context(), mastercfg.OperEndpointPrefix+id); err != nil {
		t.Error(err)
	}
	if _, ok, err := n.Txn(t.Context(), objdb.Txn{Deletes: []string{mastercfg.OperEndpointPrefix + id, mastercfg.OperEndpointPrefix + "net.blue-never"}}); err != nil || !ok {
		t.Errorf("taking reports back: %t, %v", ok, err)
	}
	summary := objdb.KV{Key: mastercfg.OvsDriverPrefix + "h1", Value: []byte(text(t, mastercfg.OvsDriverOperState{ID: "h1"}))}
	if _, ok, err := n.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{summary, {Key: mastercfg.K8sEnforcedKey("h1"), Value: []byte(`{"number":1}`)}}}); err != nil || !ok {
		t.Errorf("summary: %t, %v", ok, err)
	}
	b.remove(mastercfg.EndpointPrefix + id)
	if _, ok, err := n.Txn(t.Context(), report); err != nil || ok {
		t.Errorf("report of an endpoint that is gone: %t, %v", ok, err)
	}
}

// The attempts of a thief of a node's key.
func TestAStolenKeyOpensNothingElse(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.network("red", "net")
	b.endpoint("blue", "net", "mine", "h1")
	b.endpoint("blue", "net", "theirs", "h2")
	b.endpoint("red", "net", "other", "h2")
	b.put(mastercfg.OperEndpointPrefix+"net.blue-theirs", mastercfg.OperEndpointState{ID: "net.blue-theirs", HomingHost: "h2"})
	b.join("h2", []string{"192.0.2.2"})
	b.put(agentOf("h2", "192.0.2.12").Key(), agentOf("h2", "192.0.2.12")) // which h1 joins with as well
	own, read := audited(t)
	thief := b.through(b.join("h1", []string{"192.0.2.1", "192.0.2.2", "192.0.2.12"}), b.open(own, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 1000, 1000 }))
	c, err := thief.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return thief.Ping(t.Context()) == nil })
	victim, err := b.db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := victim.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.Grant(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, record any, opts ...clientv3.OpOption) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Txn(ctx).Then(clientv3.OpPut(key, text(t, record), opts...)).Commit()
			return err
		}
	}
	report := func(id string, record mastercfg.OperEndpointState) func(context.Context) error {
		record.ID = id
		return put(mastercfg.OperEndpointPrefix+id, record)
	}
	get := func(key string, opts ...clientv3.OpOption) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Get(ctx, key, opts...)
			return err
		}
	}
	txn := func(change func(clientv3.Txn) clientv3.Txn) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := change(c.Txn(ctx)).Commit()
			return err
		}
	}
	// etcd's client repeats a refused watch once if it sees the end of its stream first (the two selects of Watch in
	// etcd's client/v3/watch.go). Here each is requested once, so that each line after the first is one too many.
	watch := func(key, end string, change ...func(*pb.WatchCreateRequest)) func(context.Context) error {
		return func(ctx context.Context) error {
			create := &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end)}
			for _, do := range change {
				do(create)
			}
			stream, err := pb.NewWatchClient(c.ActiveConnection()).Watch(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
				return err
			}
			answer, err := stream.Recv()
			if err == nil && answer.Canceled {
				err = errors.New(answer.CancelReason)
			}
			return err
		}
	}
	const onAll = "\x00" // the end of what is from a key on
	many := func(x clientv3.Txn) clientv3.Txn {
		var ops []clientv3.Op
		for port := range maxEntries + 1 {
			tooMany := agentOf("h1", "192.0.2.1")
			tooMany.Port = 10000 + port
			ops = append(ops, clientv3.OpPut(tooMany.Key(), text(t, tooMany), clientv3.WithLease(lease.ID)))
		}
		return x.Then(ops...)
	}
	withLease, entryKey := clientv3.WithLease(lease.ID), entry("h1", "192.0.2.1").Key()
	mine, theirs := mastercfg.OperEndpointPrefix+"net.blue-mine", mastercfg.OperEndpointPrefix+"net.blue-theirs"
	agentAt := func(address string, said ...string) objdb.Service {
		s := agentOf("h1", address)
		s.Addresses = said
		return s
	}
	type line struct{ verb, key, reason string } // of the reason a part
	attacks := []struct {
		name string
		line line
		do   func(context.Context) error
	}{
		{"registration of another host", line{"Txn", entry("h2", "192.0.2.1").Key(), "is about node \"h2\", and who writes it has joined as h1"}, put(entry("h2", "192.0.2.1").Key(), entry("h2", "192.0.2.1"), withLease)},
		{"registration at an address of nobody", line{"Txn", entry("h1", "192.0.2.9").Key(), "192.0.2.9 is not one that the node joined with: one whose addresses change joins anew: start it with a join token (--join-token-file), or with those of before (--ctrl-ip, --vtep-ip)"}, put(entry("h1", "192.0.2.9").Key(), entry("h1", "192.0.2.9"), withLease)},
		{"registration at another's tunnel end, joined with", line{"Txn", entry("h1", "192.0.2.2").Key(), "192.0.2.2 is the tunnel end of node h2"}, put(entry("h1", "192.0.2.2").Key(), entry("h1", "192.0.2.2"), withLease)},
		{"registration where another is registered that joined before", line{"Txn", agentAt("192.0.2.12").Key(), "that of node h2, which joined before"}, put(agentAt("192.0.2.12").Key(), agentAt("192.0.2.12"), withLease)},
		{"more registrations at once than a node has", line{"Txn", fmt.Sprintf("%snetplugin/192.0.2.1:%d", objdb.ServicePrefix, 10000+maxEntries), "would have 9"}, txn(many)},
		{"registration of who joined before deleted", line{"Txn", agentAt("192.0.2.12").Key(), "that of node h2, which joined before"}, txn(func(x clientv3.Txn) clientv3.Txn { return x.Then(clientv3.OpDelete(agentAt("192.0.2.12").Key())) })},
		{"registration under another key", line{"Txn", entryKey + "0", "is about node \"h1\" under"}, put(entryKey+"0", entry("h1", "192.0.2.1"), withLease)},
		{"registration that claims another's tunnel end", line{"Txn", agentAt("192.0.2.1").Key(), "192.0.2.2 is the tunnel end of node h2"}, put(agentAt("192.0.2.1").Key(), agentAt("192.0.2.1", "192.0.2.2"), withLease)},
		{"registration of more addresses than a machine tells", line{"Txn", agentAt("192.0.2.1").Key(), "65 addresses"}, put(agentAt("192.0.2.1").Key(), agentAt("192.0.2.1", manyAddresses(hostaddr.Most+1)...), withLease)},
		{"registration of an address with a zone", line{"Txn", agentAt("192.0.2.1").Key(), "has a zone"}, put(agentAt("192.0.2.1").Key(), agentAt("192.0.2.1", "fe80::1%}\nflush ruleset"), withLease)},
		{"registration twice in one transaction", line{"Txn", entryKey, "written twice"}, txn(func(x clientv3.Txn) clientv3.Txn {
			one := clientv3.OpPut(entryKey, text(t, entry("h1", "192.0.2.1")), withLease)
			return x.Then(one, one)
		})},
		{"registration without a lease", line{"Txn", entryKey, "needs a lease of the node"}, put(entryKey, entry("h1", "192.0.2.1"))},
		{"registration with another's lease", line{"Txn", entryKey, "needs a lease of the node"}, put(entryKey, entry("h1", "192.0.2.1"), clientv3.WithLease(foreign.ID))},
		{"registration as netmaster", line{"Txn", objdb.ServicePrefix + "netmaster/192.0.2.1:9999", "not a registration of a node"}, put(objdb.ServicePrefix+"netmaster/192.0.2.1:9999", objdb.Service{ServiceName: "netmaster", HostAddr: "192.0.2.1", Port: 9999, Hostname: "h1"}, withLease)},
		{"another's registration deleted", line{"Txn", entry("h2", "192.0.2.2").Key(), "192.0.2.2 is the tunnel end of node h2"}, txn(func(x clientv3.Txn) clientv3.Txn { return x.Then(clientv3.OpDelete(entry("h2", "192.0.2.2").Key())) })},
		{"all registrations deleted", line{"Txn", objdb.ServicePrefix, "single keys are deleted"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.Then(clientv3.OpDelete(objdb.ServicePrefix, clientv3.WithPrefix()))
		})},
		{"lock of the leader", line{"Txn", objdb.LockKey(mastercfg.LeaderLock), "only registrations have a lease"}, put(objdb.LockKey(mastercfg.LeaderLock), "192.0.2.1:9999", withLease)},
		{"state of an endpoint", line{"Txn", endpointKey("blue", "net", "mine"), "nodes do not write this"}, put(endpointKey("blue", "net", "mine"), mastercfg.CfgEndpointState{HomingHost: "h1"})},
		{"intent", line{"Txn", mastercfg.ModelKey("tenant", "red"), "nodes do not write this"}, put(mastercfg.ModelKey("tenant", "red"), struct{}{})},
		{"security", line{"Txn", mastercfg.SecurityKey, "nodes do not write this"}, put(mastercfg.SecurityKey, mastercfg.Security{Mode: mastercfg.SecurityOpen})},
		{"own record", line{"Txn", mastercfg.NodePrefix + "h1", "nodes do not write this"}, put(mastercfg.NodePrefix+"h1", mastercfg.Joined{Host: "h1"})},
		{"report of another's endpoint", line{"Txn", theirs, "not homed on the node"}, report("net.blue-theirs", mastercfg.OperEndpointState{HomingHost: "h1"})},
		{"report for another host", line{"Txn", mine, "on node \"h2\""}, report("net.blue-mine", mastercfg.OperEndpointState{HomingHost: "h2"})},
		{"report with another's tunnel end", line{"Txn", mine, "192.0.2.3"}, report("net.blue-mine", mastercfg.OperEndpointState{HomingHost: "h1", VtepIP: "192.0.2.3"})},
		{"report with a lease", line{"Txn", mine, "only registrations have a lease"}, put(mine, mastercfg.OperEndpointState{ID: "net.blue-mine", HomingHost: "h1"}, withLease)},
		{"report that is none", line{"Txn", mine, "cannot unmarshal"}, put(mine, "text")},
		{"report of another deleted", line{"Txn", theirs, "reported by another node"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.Then(clientv3.OpDelete(mastercfg.OperEndpointPrefix + "net.blue-theirs"))
		})},
		{"summary of another host", line{"Txn", mastercfg.OvsDriverPrefix + "h2", "nodes do not write this"}, put(mastercfg.OvsDriverPrefix+"h2", mastercfg.OvsDriverOperState{ID: "h2"})},
		{"epoch of another host", line{"Txn", mastercfg.K8sEnforcedKey("h2"), "nodes do not write this"}, put(mastercfg.K8sEnforcedKey("h2"), mastercfg.K8sEpoch{})},
		{"nested transaction", line{"Txn", mastercfg.SecurityKey, "puts and deletes only"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(mastercfg.SecurityKey, "{}")}, nil))
		})},
		{"put where a condition does not hold", line{"Txn", mastercfg.SecurityKey, "where a condition does not hold"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(mine), ">", 1<<50)).Else(clientv3.OpPut(mastercfg.SecurityKey, "{}"))
		})},
		{"read in a transaction", line{"Txn", mastercfg.AccessRoot, "puts and deletes only"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.Then(clientv3.OpGet(mastercfg.AccessRoot, clientv3.WithPrefix()))
		})},
		{"previous value of a put", line{"Txn", mine, "nor kept"}, put(mine, mastercfg.OperEndpointState{ID: "net.blue-mine", HomingHost: "h1"}, clientv3.WithPrevKV())},
		{"previous value of a deletion", line{"Txn", mine, "single keys are deleted"}, txn(func(x clientv3.Txn) clientv3.Txn { return x.Then(clientv3.OpDelete(mine, clientv3.WithPrevKV())) })},
		{"put that keeps the value", line{"Txn", mastercfg.OvsDriverPrefix + "h1", "nor kept"}, func(ctx context.Context) error {
			_, err := c.Txn(ctx).Then(clientv3.OpPut(mastercfg.OvsDriverPrefix+"h1", "", clientv3.WithIgnoreValue())).Commit()
			return err
		}},
		{"deletion of a range", line{"Txn", mine, "single keys are deleted"}, txn(func(x clientv3.Txn) clientv3.Txn { return x.Then(clientv3.OpDelete(mine, clientv3.WithFromKey())) })},
		{"guess of a value", line{"Txn", mastercfg.GlobalConfigKey, "about revisions"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.Value(mastercfg.GlobalConfigKey), ">", "x"))
		})},
		{"condition on a secret key", line{"Txn", mastercfg.NodePrefix + "h2", "nodes do not read this"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(mastercfg.NodePrefix+"h2"), ">", 0))
		})},
		{"condition on a foreign tenant", line{"Txn", endpointKey("red", "net", "other"), "not of a tenant that the node serves"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(endpointKey("red", "net", "other")), ">", 0))
		})},
		{"condition on a foreign tenant's network", line{"Txn", mastercfg.NetworkPrefix + "net.red", "not of a tenant that the node serves"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(mastercfg.NetworkPrefix+"net.red"), ">", 0))
		})},
		{"condition on whether a network is there", line{"Txn", mastercfg.NetworkPrefix + "none.red", "not of a tenant that the node serves"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(mastercfg.NetworkPrefix+"none.red"), ">", 0))
		})},
		{"condition on a foreign tenant's group", line{"Txn", mastercfg.EndpointGroupPrefix + "front:red", "not of a tenant that the node serves"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(mastercfg.EndpointGroupPrefix+"front:red"), ">", 0))
		})},
		{"condition on whether a tenant is there", line{"Txn", mastercfg.VRFPrefix + "red", "not of a tenant that the node serves"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(mastercfg.VRFPrefix+"red"), ">", 0))
		})},
		{"condition on a range", line{"Txn", mastercfg.StateRoot, "about single keys"}, txn(func(x clientv3.Txn) clientv3.Txn {
			return x.If(clientv3.Compare(clientv3.CreateRevision(mastercfg.StateRoot), ">", 0).WithPrefix())
		})},
		{"secrets read", line{"Range", mastercfg.AccessRoot, "read this"}, get(mastercfg.AccessRoot, clientv3.WithPrefix())},
		{"intent read", line{"Range", mastercfg.ModelRoot, "read this"}, get(mastercfg.ModelRoot, clientv3.WithPrefix())},
		{"everything read", line{"Range", "\x00", "read this"}, get("\x00", clientv3.WithFromKey())},
		{"read on beyond what is allowed", line{"Range", mastercfg.StateRoot, "read this"}, get(mastercfg.StateRoot, clientv3.WithFromKey())},
		{"read across prefixes", line{"Range", mastercfg.OperEndpointPrefix, "/contiv.io/state/"}, get(mastercfg.OperEndpointPrefix, clientv3.WithRange(mastercfg.StateRoot+"\xff"))},
		{"summary of another read", line{"Range", mastercfg.OvsDriverPrefix + "h2", "read this"}, get(mastercfg.OvsDriverPrefix + "h2")},
		{"sorted by what is hidden", line{"Range", mastercfg.StateRoot, "only a least revision"}, get(mastercfg.StateRoot, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend))},
		{"watch of everything", line{"Watch", "\x00", "watch this"}, watch("\x00", onAll)},
		{"watch from a key on", line{"Watch", mastercfg.StateRoot, "watch this"}, watch(mastercfg.StateRoot, onAll)},
		{"watch with previous values", line{"Watch", mastercfg.StateRoot, "neither filters, nor what was before"}, watch(mastercfg.StateRoot, objdb.PrefixEnd(mastercfg.StateRoot), func(r *pb.WatchCreateRequest) { r.PrevKv = true })},
		{"watch of secrets", line{"Watch", mastercfg.AccessRoot, "watch this"}, watch(mastercfg.AccessRoot, objdb.PrefixEnd(mastercfg.AccessRoot))},
		{"watch with filters", line{"Watch", mastercfg.StateRoot, "neither filters, nor what was before"}, watch(mastercfg.StateRoot, objdb.PrefixEnd(mastercfg.StateRoot), func(r *pb.WatchCreateRequest) {
			r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
		})},
		{"lease with a number", line{"LeaseGrant", "", "number 7,"}, func(ctx context.Context) error {
			_, err := clientv3.RetryLeaseClient(c).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 7, TTL: 10})
			return err
		}},
		{"lease of a day", line{"LeaseGrant", "", "86400 s"}, func(ctx context.Context) error { _, err := c.Grant(ctx, 86400); return err }},
		{"another's lease revoked", line{"LeaseRevoke", "", fmt.Sprintf("%x", foreign.ID)}, func(ctx context.Context) error { _, err := c.Revoke(ctx, foreign.ID); return err }},
		{"another's lease renewed", line{"LeaseKeepAlive", "", fmt.Sprintf("%x", foreign.ID)}, func(ctx context.Context) error { _, err := c.KeepAliveOnce(ctx, foreign.ID); return err }},
		{"another's lease looked at", line{"LeaseTimeToLive", "", "nodes do not call this"}, func(ctx context.Context) error { _, err := c.TimeToLive(ctx, foreign.ID); return err }},
		{"all leases", line{"LeaseLeases", "", "nodes do not call this"}, func(ctx context.Context) error { _, err := c.Leases(ctx); return err }},
		{"10,000 leases", line{"LeaseGrant", "", "4 leases"}, func(ctx context.Context) error {
			for range 10_000 {
				if _, err := c.Grant(ctx, 60); err != nil {
					return err
				}
			}
			return nil
		}},
		{"put", line{"Put", mine, "nodes do not call this"}, func(ctx context.Context) error { _, err := c.Put(ctx, mine, "{}"); return err }},
		{"delete", line{"DeleteRange", mine, "nodes do not call this"}, func(ctx context.Context) error { _, err := c.Delete(ctx, mine); return err }},
		{"compaction", line{"Compact", "", "nodes do not call this"}, func(ctx context.Context) error { _, err := c.Compact(ctx, 1); return err }},
		{"member", line{"MemberAdd", "", "nodes do not call this"}, func(ctx context.Context) error {
			_, err := c.MemberAdd(ctx, []string{"http://192.0.2.1:2380"})
			return err
		}},
		{"member removed", line{"MemberRemove", "", "nodes do not call this"}, func(ctx context.Context) error { _, err := c.MemberRemove(ctx, 1); return err }},
		{"alarm", line{"Alarm", "", "nodes do not call this"}, func(ctx context.Context) error { _, err := c.AlarmList(ctx); return err }},
		{"leader of the store moved", line{"MoveLeader", "", "nodes do not call this"}, func(ctx context.Context) error { _, err := c.MoveLeader(ctx, 1); return err }},
		{"user", line{"UserAdd", "", "nodes do not call this"}, func(ctx context.Context) error { _, err := c.UserAdd(ctx, "eve", "x"); return err }},
	}
	before, _, err := b.db.List(t.Context(), mastercfg.Root)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, attack := range attacks {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		if err := attack.do(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", attack.name, err)
		}
		cancel()
		var lines []audit.Entry
		isAbout := func(want line) func(audit.Entry) bool {
			return func(e audit.Entry) bool {
				return e.Principal == "node/h1" && e.Decision == audit.Denied && e.Status == 403 && e.Verb == want.verb && e.Key == want.key &&
					e.Reason != "" && strings.Contains(e.Reason, want.reason)
			}
		}
		testkit.Eventually(t, soon, attack.name+": a line of the audit log", func() bool {
			lines = entriesOf(t, read())[told:]
			return len(lines) > 0
		})
		if len(lines) != 1 || !isAbout(attack.line)(lines[0]) {
			t.Errorf("%s: the lines are %+v, want one: %+v", attack.name, lines, attack.line)
		}
		told += len(lines)
	}
	after, _, err := b.db.List(t.Context(), mastercfg.Root)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the state has changed:\n%v\n%v", before, after)
	}
	if left, err := victim.TimeToLive(t.Context(), foreign.ID); err != nil || left.TTL <= 0 {
		t.Errorf("the other's lease: %v, %v", left, err)
	}
	leases, err := victim.Leases(t.Context())
	if err != nil || len(leases.Leases) > 10 {
		t.Errorf("%d leases, %v", len(leases.Leases), err)
	}
}

// entriesOf returns the lines of an audit log.
func entriesOf(t testing.TB, text string) (all []audit.Entry) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break // being written
		}
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// agentOf returns the registration of an agent.
func agentOf(host, address string) objdb.Service {
	return objdb.Service{ServiceName: mastercfg.AgentService, Hostname: host, HostAddr: address, Port: 9002}
}

// The number of a lease is all that it takes to end it, for a node with a name that fits.
func TestNodesAreNotToldTheNumbersOfLeases(t *testing.T) {
	b := newBed(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	store, err := b.db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lease, err := store.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	leader := objdb.LockKey(mastercfg.LeaderLock)
	if _, err := store.Put(t.Context(), leader, "192.0.2.9:9999", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read, err := c.Get(t.Context(), leader)
	if err != nil || len(read.Kvs) != 1 || read.Kvs[0].Lease != 0 {
		t.Errorf("read: %v, %v", read, err)
	}
	for what, condition := range map[string]clientv3.Cmp{
		"the number of a lease": clientv3.Compare(clientv3.LeaseValue(leader), ">", int64(lease.ID)-1), "a value": clientv3.Compare(clientv3.Value(leader), "=", "192.0.2.9:9999"),
	} {
		if _, err := c.Txn(t.Context()).If(condition).Then(clientv3.OpPut(mastercfg.OvsDriverPrefix+"h1", "{}")).Commit(); !strings.Contains(fmt.Sprint(err), "conditions are about revisions") {
			t.Errorf("asked by a condition on %s: %v", what, err)
		}
	}
	watching := c.Watch(t.Context(), leader, clientv3.WithRev(read.Header.Revision+1))
	if _, err := store.Put(t.Context(), leader, "192.0.2.8:9999", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	if told := <-watching; len(told.Events) != 1 || told.Events[0].Kv.Lease != 0 {
		t.Errorf("watched: %+v, %v", told, told.Err())
	}
}

func TestLeasesTellWhoseTheyAre(t *testing.T) {
	if !ownsLease("h1", mastercfg.LeasesOf("h1")|5) || ownsLease("h2", mastercfg.LeasesOf("h1")|5) || ownsLease("h1", 5) || ownsLease("h1", -mastercfg.LeasesOf("h1")) {
		t.Error("not by its number")
	}
	if netip.MustParseAddr("::ffff:192.0.2.1") == netip.MustParseAddr("192.0.2.1") || !sameAddress("::ffff:192.0.2.1", netip.MustParseAddr("192.0.2.1")) {
		t.Error("addresses of IPv4 in IPv6 are not the same")
	}
}
