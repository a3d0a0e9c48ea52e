package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A node whose last event was the deletion of a record can continue at a netmaster that has never had the record:
// the store is the same.
func TestANodeGoesOnAtAGateThatBeganLater(t *testing.T) {
	b := newBed(t)
	b.network("blue", "net")
	b.endpoint("blue", "net", "mine", "h1")
	b.endpoint("blue", "net", "gone", "h2")
	first := b.open()
	n := b.through(b.join("h1", []string{"192.0.2.1"}), first)
	f := b.follow(n, mastercfg.StateRoot)
	gone, next := endpointKey("blue", "net", "gone"), endpointKey("blue", "net", "next")
	testkit.Eventually(t, soon, "the node has the state", func() bool { return f.has(gone) })
	b.remove(gone)
	testkit.Eventually(t, soon, "the node hears that it is gone", func() bool { return !f.has(gone) })

	second := b.open()
	if err := n.SetEndpoints(second.url); err != nil {
		t.Fatal(err)
	}
	first.stop()
	b.endpoint("blue", "net", "next", "h2")
	testkit.Eventually(t, soon, "the node goes on", func() bool { return f.has(next) })
	if history := n.Standing().History; history != 0 {
		t.Errorf("the store is said to have gone back or to be another one %d times", history)
	}
}

// A node whose last event was about a record that was deleted and recreated while it was disconnected can
// continue: the store is the same, whether that event was a write or a deletion, and also at a gate that began
// later.
func TestANodeGoesOnWhenItsLastNewsWasMadeAgain(t *testing.T) {
	networkKey := mastercfg.NetworkPrefix + mastercfg.NetworkID("blue", "again")
	for kind, r := range map[string]struct {
		key  string
		make func(*bed)
	}{
		"endpoint": {endpointKey("blue", "net", "again"), func(b *bed) { b.endpoint("blue", "net", "again", "h2") }},
		"network":  {networkKey, func(b *bed) { b.network("blue", "again") }},
	} {
		for _, went := range []bool{false, true} {
			for _, later := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,went=%t,later=%t", kind, went, later), func(t *testing.T) {
					b := newBed(t)
					b.network("blue", "net")
					b.endpoint("blue", "net", "mine", "h1")
					first, second := b.open(), b.open()
					n := b.through(b.join("h1", []string{"192.0.2.1"}), first)
					f := b.follow(n, mastercfg.StateRoot)
					r.make(b)
					testkit.Eventually(t, soon, "the node has the record", func() bool { return f.has(r.key) })
					if went {
						b.remove(r.key)
						testkit.Eventually(t, soon, "the node hears that it is gone", func() bool { return !f.has(r.key) })
					}
					first.stop()
					if !went {
						b.remove(r.key)
					}
					r.make(b)
					if later {
						second = b.open()
					}
					if err := n.SetEndpoints(second.url); err != nil {
						t.Fatal(err)
					}
					next := endpointKey("blue", "net", "next")
					b.endpoint("blue", "net", "next", "h2")
					testkit.Eventually(t, soon, "the node goes on", func() bool { return f.has(next) && f.has(r.key) })
					if history := n.Standing().History; history != 0 {
						t.Errorf("the store is said to have gone back or to be another one %d times", history)
					}
				})
			}
		}
	}
}

// A node whose last event was about a tenant that it no longer serves can continue at a gate that does not show it
// that tenant: the store is the same, whether that event was a write or a deletion.
func TestANodeGoesOnWhenItsLastNewsWasOfATenantThatItServesNoMore(t *testing.T) {
	rule := mastercfg.PolicyRulePrefix + "blue:web:blue:in:blue:in:1:inRx"
	network := mastercfg.NetworkPrefix + mastercfg.NetworkID("blue", "late")
	for kind, r := range map[string]struct {
		key  string
		make func(*bed)
	}{
		"rule":     {rule, func(b *bed) { b.put(rule, mastercfg.CfgPolicyRule{}) }},
		"endpoint": {endpointKey("blue", "net", "late"), func(b *bed) { b.endpoint("blue", "net", "late", "h2") }},
		"network":  {network, func(b *bed) { b.network("blue", "late") }},
	} {
		for _, went := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,went=%t", kind, went), func(t *testing.T) {
				b := newBed(t)
				b.network("blue", "net")
				b.network("red", "net")
				b.endpoint("blue", "net", "mine", "h1")
				b.endpoint("red", "net", "mine", "h1")
				first := b.open()
				n := b.through(b.join("h1", []string{"192.0.2.1"}, "blue", "red"), first)
				f := b.follow(n, mastercfg.StateRoot)
				mine := endpointKey("blue", "net", "mine")
				testkit.Eventually(t, soon, "the node has the state", func() bool { return f.has(mine) })
				b.remove(mine)
				r.make(b)
				testkit.Eventually(t, soon, "the node has the record", func() bool { return !f.has(mine) && f.has(r.key) })
				if went {
					b.remove(r.key)
					testkit.Eventually(t, soon, "the node hears that it is gone", func() bool { return !f.has(r.key) })
				}
				first.stop()
				second := b.open() // which has never seen that the node served the tenant
				if err := n.SetEndpoints(second.url); err != nil {
					t.Fatal(err)
				}
				next := endpointKey("red", "net", "next")
				b.endpoint("red", "net", "next", "h2")
				testkit.Eventually(t, soon, "the node goes on", func() bool { return f.has(next) })
				if history := n.Standing().History; history != 0 {
					t.Errorf("the store is said to have gone back or to be another one %d times", history)
				}
			})
		}
	}
}

// A node that may not serve a tenant does not learn from reads of the past which keys the tenant has had.
func TestReadsOfThePastDoNotTellWhatAnotherTenantHas(t *testing.T) {
	b := newBed(t)
	b.network("red", "net")
	b.endpoint("red", "net", "c1", "h2")
	rule := mastercfg.PolicyRulePrefix + "red:web:red:in:red:in:1:inRx"
	b.put(rule, mastercfg.CfgPolicyRule{})
	n := b.through(b.join("h1", []string{"192.0.2.1"}, "blue"), b.open())
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	_, now, err := b.db.List(t.Context(), mastercfg.GlobalRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{rule, rule + "x", endpointKey("red", "net", "c1"), endpointKey("red", "net", "c2"), mastercfg.NetworkPrefix + "net.red"} {
		if _, err := n.GetAt(t.Context(), key, now); !fault.Is(err, fault.NotFound) {
			t.Errorf("key %s: %v", key, err)
		}
	}
}

// Many pods that were created and deleted before a node's listing do not delay the next events: a node checks all
// of them with one request, as a gate answers nodeRate requests a second.
func TestANodeHearsWhatIsNewSoonAfterItsListing(t *testing.T) {
	b := newBed(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil }) // and follows the store
	key := func(i int) string { return fmt.Sprintf("%sgone%d", mastercfg.K8sBackendPrefix, i) }
	stays, next := mastercfg.K8sBackendPrefix+"stays", mastercfg.K8sBackendPrefix+"next"
	b.put(stays, struct{}{})
	const gone, together = 3000, 100
	for _, going := range []bool{false, true} {
		for first := 0; first < gone; first += together {
			var txn objdb.Txn
			for i := first; i < first+together; i++ {
				if going {
					txn.Deletes = append(txn.Deletes, key(i))
				} else {
					txn.Puts = append(txn.Puts, objdb.KV{Key: key(i), Value: []byte("{}")})
				}
			}
			if _, _, err := b.db.Txn(t.Context(), txn); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := b.follow(n, mastercfg.StateRoot)
	testkit.Eventually(t, soon, "the node has the state", func() bool { return f.has(stays) })
	began := time.Now()
	b.put(next, struct{}{})
	testkit.Eventually(t, 2*soon, "the node hears what is new", func() bool { return f.has(next) })
	if took := time.Since(began); took > gone/nodeRate*time.Second/2 {
		t.Errorf("it heard of it after %s", took.Round(time.Millisecond))
	}
}
