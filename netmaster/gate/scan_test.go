package gate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// A node that reads everything many times at once delays another one by one of its reads.
func TestNodesReadInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{scans: make(chan struct{}, 1)}
		limits := Limits{}.withDefaults()
		var order []string
		read := func(who string, b *budget) {
			done, err := g.scan(t.Context(), b)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, who) // by one at a time
			done()
		}
		g.scans <- struct{}{} // another reader is active
		greedy := newBudget(limits)
		for range 20 {
			go read("greedy", greedy)
		}
		synctest.Wait()
		go read("modest", newBudget(limits))
		synctest.Wait()
		<-g.scans
		synctest.Wait()
		if len(order) != 21 || order[0] != "modest" && order[1] != "modest" {
			t.Errorf("%d reads, in the order %v", len(order), order)
		}
	})
}

// A node may read the whole state a few times at once, and then as often as a node needs that reconnects
// repeatedly, however large it is.
func TestANodeReadsTheWholeStateSoOftenOnly(t *testing.T) {
	for _, keys := range []int{smallState, 300_000} {
		synctest.Test(t, func(t *testing.T) {
			b, began := newBudget(Limits{}.withDefaults()), time.Now()
			read := func() {
				for at := 0; at < keys; at += pageSize {
					if err := b.scan(t.Context()); err != nil {
						t.Fatal(err)
					}
					b.chargeScan(pageSize, keys)
				}
			}
			for range 4 {
				read()
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("of %d keys, the first four times took %s", keys, took)
			}
			for range 6 {
				read()
			}
			if took := time.Since(began); took < 45*time.Second || took > 65*time.Second {
				t.Errorf("of %d keys, six more times ended after %s", keys, took)
			}
		})
	}
}

// Concurrent reads of a node are counted one after the other: none of them begins before the cost of the others is
// known.
func TestReadsAtTheSameMomentAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := &Gate{scans: make(chan struct{}, scansAtOnce)}, newBudget(Limits{}.withDefaults())
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		var reads atomic.Int32
		var tasks sync.WaitGroup
		for range 100 {
			tasks.Go(func() {
				done, err := g.scan(ctx, b)
				if err != nil {
					return
				}
				defer done()
				reads.Add(1)
				b.chargeScan(smallState, smallState)
			})
		}
		tasks.Wait()
		if n := reads.Load(); n < 4 || n > 6 {
			t.Errorf("the whole state was read %d times in 15 s", n)
		}
	})
}

// A node that reads all registrations repeatedly waits like one that reads the state. It gets the leader, the
// netmasters and the cluster's configuration without waiting, and other nodes get everything.
func TestANodeReadsRegistrationsSoOftenOnly(t *testing.T) {
	b := newBed(t)
	const nodes = 3 * pageSize
	for first := 0; first < nodes; first += 100 {
		var txn objdb.Txn
		for i := first; i < first+100; i++ {
			key, value := entryOf(t, fmt.Sprint("node-", i), i)
			txn.Puts = append(txn.Puts, objdb.KV{Key: key, Value: value})
		}
		if _, _, err := b.db.Txn(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	master := objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "192.0.2.9", Port: 9999, Hostname: "m1"}
	b.put(master.Key(), master)
	g := b.open(func(c *Config) { c.Limits.Rate, c.Limits.Burst = 1000, 1000 })
	thief, other := b.through(b.join("h1", []string{"192.0.2.1"}), g), b.through(b.join("h2", []string{"192.0.2.2"}), g)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return thief.Ping(t.Context()) == nil && other.Ping(t.Context()) == nil })
	c, err := thief.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reads := func(within time.Duration, what string, opts ...clientv3.OpOption) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := c.Get(ctx, what, opts...)
		return err
	}
	exhausted := func(err error) bool { return err != nil && strings.Contains(err.Error(), "more than the whole state") }
	const most = stateReadAtOnce / (stateRead * pageSize / smallState)
	pages, start := 0, time.Now()
	state := thief.budgetAt(g).state
	for ; pages < 2*most && state.Tokens() >= 0; pages++ {
		if err := reads(soon, objdb.ServicePrefix, clientv3.WithPrefix(), clientv3.WithLimit(pageSize)); err != nil {
			t.Fatal(err)
		}
	}
	if may := most + 2 + int(time.Since(start).Seconds()); pages < most || pages > may {
		t.Errorf("%d pages of registrations were read at once, want %d to %d", pages, most, may)
	}
	for _, prefix := range []string{objdb.ServicePrefix, objdb.ServicePrefix + mastercfg.AgentService + "/", objdb.ServicePrefix + mastercfg.MasterService, mastercfg.StateRoot} {
		for range 2 { // it owes more than a read waits for
			state.ReserveN(time.Now(), stateReadAtOnce)
		}
		if err := reads(soon, prefix, clientv3.WithPrefix()); !exhausted(err) {
			t.Errorf("%s: %v", prefix, err)
		}
	}
	for _, prefix := range []string{objdb.ServicePrefix + mastercfg.MasterService + "/", mastercfg.GlobalRoot} {
		if err := reads(soon, prefix, clientv3.WithPrefix()); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
	}
	// Like an agent that is started four times.
	for range 4 {
		for _, prefix := range []string{mastercfg.StateRoot, mastercfg.GlobalRoot, objdb.ServicePrefix} {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			kvs, _, err := other.List(ctx, prefix)
			if cancel(); err != nil || prefix == objdb.ServicePrefix && len(kvs) != nodes+1 {
				t.Errorf("%s: %d keys, %v", prefix, len(kvs), err)
			}
		}
	}
	if left := other.budgetAt(g).state.Tokens(); left < stateReadAtOnce/2 {
		t.Errorf("an agent that was started four times has %v thousandths left", left)
	}
}

// budgetAt returns a gate's budget for a node.
func (n *node) budgetAt(g *running) *budget {
	g.callers.mu.Lock()
	defer g.callers.mu.Unlock()
	for who, b := range g.callers.budgets {
		if who.host == n.host {
			return b
		}
	}
	return nil
}
