package gate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// held is the mirror of a gate that receives no changes while a test holds it.
type held struct {
	*mirror.Mirror
	sync.Mutex
	waits chan int64 // a revision that is awaited and not reached
}

// WaitRevision implements replica.
func (h *held) WaitRevision(ctx context.Context, rev int64) error {
	if h.Revision() < rev {
		select {
		case h.waits <- rev:
		default: // one waiting call is enough
		}
	}
	return h.Mirror.WaitRevision(ctx, rev)
}

// behind returns a gate that receives no changes while a test holds it, and node h1, which it serves.
func behind(b *bed) (*node, *held) {
	b.Helper()
	hold := &held{waits: make(chan int64, 1)}
	b.made = func(g *Gate) {
		hold.Mirror = mirror.New(g.cfg.DB, mastercfg.Root, func(batch mirror.Batch) {
			hold.Lock()
			defer hold.Unlock()
			g.apply(batch)
		})
		g.mirror = hold
	}
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	testkit.Eventually(b, soon, "the gate serves", func() bool { return n.Ping(b.Context()) == nil })
	return n, hold
}

// answers calls ask at a gate that is held: it has to wait for changes it has not received, and answers when it is
// released.
func answers[T any](b *bed, hold *held, ask func() (T, error)) (T, error) {
	b.Helper()
	type answer struct {
		it  T
		err error
	}
	select {
	case <-hold.waits: // before it was held
	default:
	}
	asked := make(chan answer, 1)
	go func() {
		it, err := ask()
		asked <- answer{it, err}
	}()
	select {
	case early := <-asked:
		hold.Unlock()
		b.Errorf("answered by who does not know: %v, %v", early.it, early.err)
		return early.it, early.err
	case <-hold.waits:
	}
	hold.Unlock()
	late := <-asked
	return late.it, late.err
}

// A list is filtered by the state at its revision: nothing is missing that no watch would send later.
func TestAListingWaitsForWhoseRecordsAre(t *testing.T) {
	b := newBed(t)
	b.network("red", "net")
	n, hold := behind(b)
	hold.Lock()
	b.endpoint("red", "net", "c1", "h1")
	kvs, err := answers(b, hold, func() ([]objdb.KV, error) {
		kvs, _, err := n.List(t.Context(), mastercfg.StateRoot)
		return kvs, err
	})
	var keys []string
	for _, kv := range kvs {
		keys = append(keys, strings.TrimPrefix(kv.Key, mastercfg.StateRoot))
	}
	if got := strings.Join(keys, " "); err != nil || got != "eps/net.red-c1 nets/net.red" {
		t.Errorf("%s, %v", got, err)
	}
}

// A node that comes from another netmaster sends a revision that this one has not received yet: it waits, and gets
// the changes after that.
func TestAWatchOfWhatTheStoreHasIsServedByAGateThatIsBehind(t *testing.T) {
	b := newBed(t)
	n, hold := behind(b)
	client, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hold.Lock()
	for _, name := range []string{"x1", "x2", "x3"} {
		b.put(mastercfg.GlobalRoot+name, name)
	}
	last, err := b.db.Get(t.Context(), mastercfg.GlobalRoot+"x3")
	if err != nil {
		hold.Unlock()
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	key, err := answers(b, hold, func() (string, error) {
		heard := <-client.Watch(ctx, mastercfg.GlobalRoot, clientv3.WithPrefix(), clientv3.WithRev(last.ModRevision))
		if len(heard.Events) == 0 {
			return "", fmt.Errorf("no event: %v, %w", heard.Err(), ctx.Err())
		}
		return string(heard.Events[0].Kv.Key), nil
	})
	if err != nil || key != last.Key {
		t.Errorf("it hears of %s, %v", key, err)
	}
}

// A removed node cannot write any more, also at a gate that has not received the removal, or once another node has
// its name; and it cannot read its former records.
func TestWhoIsRemovedHasNothingAtAGateThatHasNotHeard(t *testing.T) {
	const own = mastercfg.OvsDriverPrefix + "h1"
	writes := func(b *bed, n *node) (bool, error) {
		_, ok, err := n.Txn(b.Context(), objdb.Txn{Puts: []objdb.KV{{Key: own, Value: []byte(text(b, mastercfg.OvsDriverOperState{ID: "h1"}))}}})
		return ok, err
	}
	reads := func(b *bed, n *node) (bool, error) {
		kvs, _, err := n.List(b.Context(), mastercfg.StateRoot)
		return len(kvs) > 0, err
	}
	for name, c := range map[string]struct {
		does  func(*bed, *node) (bool, error)
		again bool // another machine joins under the name
	}{"writes": {writes, false}, "writes in the name of the next": {writes, true}, "reads": {reads, false}, "reads what the next sees": {reads, true}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.network("blue", "net")
			b.endpoint("blue", "net", "c1", "h1")
			former, hold := behind(b)
			hold.Lock()
			b.remove(mastercfg.NodePrefix + "h1")
			if c.again {
				b.join("h1", []string{"192.0.2.1"})
			}
			if done, err := answers(b, hold, func() (bool, error) { return c.does(b, former) }); done || err == nil {
				t.Errorf("%t, %v", done, err)
			}
			if kv, err := b.db.Get(t.Context(), own); err == nil {
				t.Errorf("it has written %s", kv.Value)
			}
		})
	}
}

// report returns a host's report on endpoint c1 of blue.
func (b *bed) report(host string) objdb.Txn {
	const id = "net.blue-c1"
	return objdb.Txn{Puts: []objdb.KV{{Key: mastercfg.OperEndpointPrefix + id, Value: []byte(text(b, mastercfg.OperEndpointState{ID: id, HomingHost: host}))}}}
}

// A gate with an outdated state does not refuse: the request is checked again with the present state.
func TestAReportOfWhatHasJustChangedIsTaken(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	n, hold := behind(b)
	hold.Lock()
	b.endpoint("blue", "net", "c1", "h1") // written again, so that it has another revision
	if ok, err := answers(b, hold, func() (bool, error) {
		_, ok, err := n.Txn(t.Context(), b.report("h1"))
		return ok, err
	}); err != nil || !ok {
		t.Errorf("%t, %v", ok, err)
	}
}

// A report on an endpoint that has just become another node's can be neither written nor deleted.
func TestNoReportOfWhatHasJustGone(t *testing.T) {
	for name, write := range map[string]func(*bed) objdb.Txn{
		"report": func(b *bed) objdb.Txn { return b.report("h1") },
		"taking a report back": func(b *bed) objdb.Txn {
			return objdb.Txn{Deletes: []string{mastercfg.OperEndpointPrefix + "net.blue-c1"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.network("blue", "net")
			b.endpoint("blue", "net", "c1", "h1")
			b.put(mastercfg.OperEndpointPrefix+"net.blue-c1", mastercfg.OperEndpointState{ID: "net.blue-c1", HomingHost: "h1"})
			n, hold := behind(b)
			hold.Lock()
			b.endpoint("blue", "net", "c1", "h2")
			theirs := text(t, mastercfg.OperEndpointState{ID: "net.blue-c1", HomingHost: "h2"})
			if _, _, err := b.db.Txn(t.Context(), b.report("h2")); err != nil {
				t.Fatal(err)
			}
			if ok, err := answers(b, hold, func() (bool, error) {
				_, ok, err := n.Txn(t.Context(), write(b))
				return ok, err
			}); err == nil || ok {
				t.Errorf("%t, %v", ok, err)
			}
			if kv, err := b.db.Get(t.Context(), mastercfg.OperEndpointPrefix+"net.blue-c1"); err != nil || string(kv.Value) != theirs {
				t.Errorf("the other's report is %s, %v", kv.Value, err)
			}
		})
	}
}
