package agent

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/objdb"
)

// BenchmarkFirstEndpointOfALargeTenant measures an attachment on a real switch while all objects of the tenant
// have to be programmed for it. Only the first attachment counts: run it with -benchtime 1x.
func BenchmarkFirstEndpointOfALargeTenant(b *testing.B) {
	const elsewhere, perTxn = 50_000, 100
	store, sw := newEtcd(b).start(), newSwitch(b)
	store.put(blueState...)
	store.del(epKey("web.blue-1"))
	for i := 0; i < elsewhere; i += perTxn {
		var txn objdb.Txn
		for n := i; n < i+perTxn; n++ {
			txn.Puts = append(txn.Puts, objdb.KV{Key: epKey(fmt.Sprintf("web.blue-r%d", n)),
				Value: []byte(epValue("web.blue", "node2", fmt.Sprintf("10.1.%d.%d", 1+n/250, 1+n%250)))})
		}
		store.commit(txn)
	}
	node := sw.startNode(store)
	node.awaitReady(b)
	for i := range b.N {
		id := fmt.Sprintf("web.blue-first%d", i)
		revision := store.put(epKey(id), epValue("web.blue", me, "10.1.0.8"))
		if _, err := node.PreparePort(b.Context(), id, 0); err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		if _, err := node.Attach(b.Context(), id, revision); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	eventually(b, "the whole tenant is in the switch", func() error {
		if flows := node.Inspect().Status.Flows; flows < 2*elsewhere {
			return fmt.Errorf("%d flows", flows)
		}
		return nil
	})
}
