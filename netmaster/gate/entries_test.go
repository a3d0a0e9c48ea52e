package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// joins enters a host's join, so many seconds after all else began; its key is its name.
func joins(t *testing.T, x *index, host string, second int, vteps ...string) {
	t.Helper()
	joined := mastercfg.Joined{Host: host, Key: host, Addresses: vteps, VTEPs: vteps, Joined: time.Unix(int64(second), 0)}
	x.take(mirror.Event{Key: mastercfg.NodePrefix + host, Value: []byte(text(t, joined))}, 1)
}

// registers returns the transaction by which a host registers.
func registers(t *testing.T, all ...objdb.Service) *pb.TxnRequest {
	t.Helper()
	var r pb.TxnRequest
	for _, s := range all {
		put := &pb.PutRequest{Key: []byte(s.Key()), Value: []byte(text(t, s)), Lease: mastercfg.LeasesOf(s.Hostname) | 1}
		r.Success = append(r.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
	}
	return &r
}

// manyAddresses returns as many as no node has.
func manyAddresses(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("2001:db8::%x", i+1))
	}
	return all
}

// A registration may have as many addresses as an agent reports, and no more, however short they are.
func TestARegistrationHasSoManyAddresses(t *testing.T) {
	x := newIndex(nil, nil)
	joins(t, x, "h1", 1, "192.0.2.1")
	s := agentOf("h1", "192.0.2.1")
	for n, refused := range map[int]bool{0: false, 1: false, hostaddr.Most: false, hostaddr.Most + 1: true, maxEntry/6 - 100: true} {
		s.Addresses = manyAddresses(n)
		if n > 1000 {
			s.Addresses = strings.Split(strings.Repeat("::1 ", n)+"::1", " ")
		}
		_, _, err := x.judge(keyholder{"h1", "h1"}, registers(t, s))
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), fmt.Sprintf("%d addresses are more than %d", len(s.Addresses), hostaddr.Most)) {
			t.Errorf("%d addresses: %v", len(s.Addresses), err)
		}
	}
}

// A link-local address with a zone is not reachable from other machines, and behind its percent sign may be any
// text, which all nodes that receive it would use.
func TestARegistrationHasNoZones(t *testing.T) {
	x := newIndex(nil, nil)
	joins(t, x, "h1", 1, "192.0.2.1")
	s := agentOf("h1", "192.0.2.1")
	for _, address := range []string{"fe80::1%eth0", "2001:db8::1% } \n flush ruleset", "::ffff:192.0.2.1%eth0"} {
		s.Addresses = []string{"192.0.2.1", address}
		if _, _, err := x.judge(keyholder{"h1", "h1"}, registers(t, s)); err == nil || !strings.Contains(err.Error(), "zone") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Checking a registration costs the gate as much among 32 times as many joined nodes.
func TestARegistrationIsJudgedAsFastAmongManyNodes(t *testing.T) {
	const few, many, times = 500, 16000, 50
	small, large := newIndex(nil, nil), newIndex(nil, nil)
	for i := range many {
		host, vtep := fmt.Sprint("node-", i), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		if i < few {
			joins(t, small, host, i, vtep)
		}
		joins(t, large, host, i, vtep)
	}
	s := agentOf("node-7", "10.0.0.7")
	s.Addresses = manyAddresses(hostaddr.Most)
	r := registers(t, s)
	judge := func(x *index) func() {
		return func() {
			if _, _, err := x.judge(keyholder{"node-7", "node-7"}, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if took := testkit.Least(t, times, judge(small), judge(large)); took[1] > 4*took[0] {
		t.Errorf("it takes %v among %d nodes, and %v among %d", took[0], few, took[1], many)
	}
}

// A key written twice in one transaction is refused before it is checked, as the store would refuse it.
func TestAKeyIsWrittenOnceInATransaction(t *testing.T) {
	x := newIndex(nil, nil)
	joins(t, x, "h1", 1, "192.0.2.1")
	one, other := agentOf("h1", "192.0.2.1"), entry("h1", "192.0.2.1")
	del := func(s objdb.Service) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(s.Key())}}}
	}
	with := func(r *pb.TxnRequest, ops ...*pb.RequestOp) *pb.TxnRequest {
		r.Success = append(r.Success, ops...)
		return r
	}
	corrupt := registers(t, one, one)
	corrupt.Success[0].GetRequestPut().Value = []byte("{")
	for name, c := range map[string]struct {
		txn     *pb.TxnRequest
		refused bool
	}{
		"two keys":             {registers(t, one, other), false},
		"one deleted":          {with(registers(t, one), del(other)), false},
		"deleted twice":        {with(registers(t, one), del(other), del(other)), false},
		"put twice":            {registers(t, one, other, one), true},
		"put and deleted":      {with(registers(t, one), del(one)), true},
		"deleted and put":      {&pb.TxnRequest{Success: []*pb.RequestOp{del(one), registers(t, one).Success[0]}}, true},
		"before it was judged": {corrupt, true},
	} {
		_, key, err := x.judge(keyholder{"h1", "h1"}, c.txn)
		if (err != nil) != c.refused || c.refused && (key != one.Key() || !strings.Contains(err.Error(), "twice")) {
			t.Errorf("%s: %s: %v", name, key, err)
		}
	}
}

// A tunnel end belongs to the node that joined with it first, of those that still have it.
func TestATunnelEndIsThatOfWhoJoinedFirst(t *testing.T) {
	x := newIndex(nil, nil)
	registersAs := func(host, at string, more ...string) bool {
		s := agentOf(host, at)
		s.Addresses = more
		_, _, err := x.judge(keyholder{host, host}, registers(t, s))
		return err == nil
	}
	claims := func(host, address string) bool { return registersAs(host, "192.0.2.3", address) } // an address that is h3's alone
	joins(t, x, "h3", 3, "192.0.2.3", "192.0.2.100")
	for _, step := range []struct {
		what   string
		do     func()
		at     string
		claims bool
	}{
		{"nobody has it", func() {}, "192.0.2.1", true},
		{"its own", func() {}, "192.0.2.3", true},
		{"that of one that joined before", func() { joins(t, x, "h1", 1, "192.0.2.1", "192.0.2.100") }, "192.0.2.1", false},
		{"in another form", func() {}, "::ffff:192.0.2.1", false},
		{"that has another one now", func() { joins(t, x, "h1", 1, "192.0.2.2") }, "192.0.2.1", true},
		{"the other one", func() {}, "192.0.2.2", false},
		{"that of one that joined later", func() { joins(t, x, "h4", 4, "192.0.2.4", "::ffff:192.0.2.4") }, "192.0.2.4", true},
		{"and of one that joined before", func() { joins(t, x, "h2", 2, "::ffff:192.0.2.4") }, "192.0.2.4", false},
		{"which joined anew, later", func() { joins(t, x, "h2", 5, "192.0.2.4") }, "192.0.2.4", true},
		{"and before after all", func() { joins(t, x, "h2", 2, "192.0.2.4") }, "192.0.2.4", false},
		{"which is gone", func() { x.take(mirror.Event{Key: mastercfg.NodePrefix + "h2"}, 2) }, "192.0.2.4", true},
		{"of which nothing can be read", func() { x.take(mirror.Event{Key: mastercfg.NodePrefix + "h1", Value: []byte("{")}, 2) }, "192.0.2.2", true},
	} {
		step.do()
		if got := claims("h3", step.at); got != step.claims {
			t.Errorf("%s: %s may be told: %t", step.what, step.at, got)
		}
	}
	if !registersAs("h3", "192.0.2.100") {
		t.Error("nobody joined with its address before, and it does not register there")
	}
	joins(t, x, "h1", 1, "192.0.2.100")
	if registersAs("h3", "192.0.2.100") || !registersAs("h1", "192.0.2.100") {
		t.Error("a node registers at the tunnel end of one that joined before, or that one does not")
	}
	for _, host := range []string{"h1", "h3", "h4"} {
		x.take(mirror.Event{Key: mastercfg.NodePrefix + host}, 3)
	}
	if len(x.ends) != 0 {
		t.Errorf("tunnel ends of nobody: %v", x.ends)
	}
}

// BenchmarkARegistrationIsJudged checks the most expensive one, among 1,000 nodes.
func BenchmarkARegistrationIsJudged(bm *testing.B) {
	x := newIndex(nil, nil)
	for i := range 1000 {
		address := []string{fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}
		value, err := json.Marshal(mastercfg.Joined{Key: "k", Addresses: address, VTEPs: address, Joined: time.Unix(int64(i), 0)})
		if err != nil {
			bm.Fatal(err)
		}
		x.take(mirror.Event{Key: fmt.Sprint(mastercfg.NodePrefix, "node-", i), Value: value}, 1)
	}
	s := agentOf("node-7", "10.0.0.7")
	s.Addresses = manyAddresses(hostaddr.Most)
	value, err := json.Marshal(s)
	if err != nil {
		bm.Fatal(err)
	}
	for bm.Loop() {
		if err := x.judgeEntry("node-7", s.Key(), value); err != nil {
			bm.Fatal(err)
		}
	}
}
