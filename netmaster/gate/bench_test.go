package gate

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// The time from the write of a rule until a node receives it, for a node that connects to etcd itself and for one
// behind a gate: with the same rules, in one run.
func BenchmarkARuleIsHeardOf(bm *testing.B) {
	b := newBed(bm)
	b.network("blue", "net")
	b.endpoint("blue", "net", "c1", "h1")
	through := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	readers := []*objdb.DB{storetest.Connect(bm), through.DB}
	heard := make([]chan time.Time, len(readers))
	for i, db := range readers {
		heard[i] = make(chan time.Time, 1)
		begun := make(chan struct{})
		m := mirror.New(db, mastercfg.StateRoot, func(batch mirror.Batch) {
			if batch.Snapshot {
				close(begun)
				return
			}
			heard[i] <- time.Now()
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = m.Run(ctx)
		}()
		bm.Cleanup(func() {
			cancel()
			<-done
		})
		<-begun
	}
	took := make([][]time.Duration, len(readers))
	for i := 0; bm.Loop(); i++ {
		key := fmt.Sprintf("%sblue:g:blue:p:blue:p:%d:inRx", mastercfg.PolicyRulePrefix, i%1000)
		began := time.Now()
		b.put(key, mastercfg.CfgPolicyRule{RuleID: key, Priority: i})
		for j := range readers {
			took[j] = append(took[j], (<-heard[j]).Sub(began))
		}
	}
	for j, name := range []string{"direct", "gate"} {
		slices.Sort(took[j])
		bm.ReportMetric(float64(took[j][len(took[j])/2].Microseconds()), name+"-p50-µs")
		bm.ReportMetric(float64(took[j][len(took[j])*99/100].Microseconds()), name+"-p99-µs")
	}
	bm.ReportMetric(float64(took[1][len(took[1])*99/100])/float64(took[0][len(took[0])*99/100]), "p99-ratio")
}

// The time until a node hears of the next pod of a tenant whose only pod there was deleted, among many records of the
// tenant: where its watch continues, and where it lists again, as before its listing is dated.
func BenchmarkTheNextPodOfATenantIsHeardOf(bm *testing.B) {
	for name, linger := range map[string]time.Duration{"continues": 6 * time.Second, "lists": time.Hour} {
		bm.Run(name, func(bm *testing.B) {
			b := newBed(bm)
			b.network("blue", "net")
			const keys, together = 20000, 100
			for from := 0; from < keys; from += together {
				var txn objdb.Txn
				for i := range together {
					key := fmt.Sprintf("%sblue:g:blue:p:blue:p:%d:inRx", mastercfg.PolicyRulePrefix, from+i)
					txn.Puts = append(txn.Puts, objdb.KV{Key: key, Value: make([]byte, 300)})
				}
				if _, _, err := b.db.Txn(bm.Context(), txn); err != nil {
					bm.Fatal(err)
				}
			}
			b.endpoint("blue", "net", "c0", "h1")
			g := b.open(func(c *Config) { c.Linger = linger })
			f := b.follow(b.through(b.join("h1", []string{"192.0.2.1"}), g), mastercfg.StateRoot)
			testkit.Eventually(bm, time.Minute, "the node has the state", f.Synced)
			if name == "continues" {
				testkit.Eventually(bm, time.Minute, "the listing is dated", g.isDated)
			}
			for i := 0; bm.Loop(); i++ {
				b.remove(endpointKey("blue", "net", fmt.Sprint("c", i)))
				b.endpoint("blue", "net", fmt.Sprint("c", i+1), "h1")
				next := endpointKey("blue", "net", fmt.Sprint("c", i+1))
				testkit.Eventually(bm, time.Minute, "the next pod", func() bool { return f.has(next) })
			}
		})
	}
}
