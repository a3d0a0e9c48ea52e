package gate

import (
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// A node whose last news was that a record is gone goes on at a netmaster that has never known the record: the store
// is the one it was.
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
