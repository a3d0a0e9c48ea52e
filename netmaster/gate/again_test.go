package gate

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// When another machine has the name of a removed node, the key of the former one gives no access: neither at the
// gate that knew it, nor at one that begins later, neither to the present, nor to its own past.
func TestTheKeyOfAFormerNodeOfTheNameOpensNothing(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	knew := b.open()
	former := b.through(b.join("h1", []string{"192.0.2.1"}), knew)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return former.Ping(t.Context()) == nil })
	_, past, err := former.List(t.Context(), mastercfg.StateRoot)
	if err != nil {
		t.Fatal(err)
	}
	b.remove(mastercfg.NodePrefix + "h1")
	next := b.join("h1", []string{"192.0.2.1"})
	for name, gate := range map[string]*running{"the gate that knew it": knew, "another": b.open()} {
		now := b.through(&node{host: "h1", pool: next.pool, own: next.own}, gate)
		testkit.Eventually(t, soon, "the next one is served", func() bool { return now.Ping(t.Context()) == nil })
		thief := b.through(&node{host: "h1", pool: former.pool, own: former.own}, gate)
		wire, err := thief.Wire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		state := &pb.RangeRequest{Key: []byte(mastercfg.StateRoot), RangeEnd: []byte(mastercfg.StateRoot + "z")}
		ofThePast := &pb.RangeRequest{Key: state.Key, RangeEnd: state.RangeEnd, Revision: past}
		summary := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(mastercfg.OvsDriverPrefix + "h1"), Value: []byte("{}")}}}
		for what, do := range map[string]func() error{
			"a listing":       func() error { _, err := wire.KV.Range(t.Context(), state); return err },
			"one of the past": func() error { _, err := wire.KV.Range(t.Context(), ofThePast); return err },
			"a write": func() error {
				_, err := wire.KV.Txn(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{summary}})
				return err
			},
			"a lease": func() error { _, err := wire.Lease.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{TTL: 10}); return err },
			"the renewal of a lease": func() error {
				stream, err := wire.Lease.LeaseKeepAlive(t.Context())
				if err == nil {
					_ = stream.Send(&pb.LeaseKeepAliveRequest{ID: mastercfg.LeasesOf("h1") | 1}) // why it fails is told by Recv
					_, err = stream.Recv()
				}
				return err
			},
			"a watch": func() error {
				client, err := thief.Client(t.Context())
				if err != nil {
					return nil
				}
				ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
				defer end()
				for heard := range client.Watch(ctx, mastercfg.StateRoot, clientv3.WithPrefix(), clientv3.WithRev(past)) {
					if heard.Err() == nil {
						return nil
					}
				}
				return errors.New("it has heard nothing")
			},
		} {
			if do() == nil {
				t.Errorf("at %s the former key has %s", name, what)
			}
		}
	}
}

// A node that was removed and joins again for more tenants sees all of them, also those hidden from it before.
func TestWhoJoinsAgainForMoreTenantsSeesThem(t *testing.T) {
	b := newBed(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}, "blue"), b.open())
	b.put(mastercfg.NetworkPrefix+"access.red", mastercfg.CfgNetworkState{ID: "access.red", Tenant: "red", NwType: "infra"}) // which all nodes serve
	f := b.follow(n, mastercfg.StateRoot)
	b.put(mastercfg.BgpPrefix+"h9", struct{}{})
	testkit.Eventually(t, soon, "what is for all", func() bool { return f.has(mastercfg.BgpPrefix + "h9") })
	if f.has(mastercfg.NetworkPrefix + "access.red") {
		t.Error("it sees a tenant that it may not serve")
	}
	b.remove(mastercfg.NodePrefix + "h1")
	b.put(mastercfg.NodePrefix+"h1", mastercfg.Joined{Host: "h1", Key: pki.KeyHash(n.own.Leaf)})
	b.put(mastercfg.BgpPrefix+"h8", struct{}{})
	testkit.Eventually(t, soon, "what is for all later", func() bool { return f.has(mastercfg.BgpPrefix + "h8") })
	if !f.has(mastercfg.NetworkPrefix + "access.red") {
		t.Error("it does not see the tenant that it may serve now")
	}
}
