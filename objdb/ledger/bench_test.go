package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
)

// payload has the size of a typical record.
var payload = []byte(fmt.Sprintf("%0420d", 0))

// share runs n operations by a number of clients and reports the rate.
func share(b *testing.B, clients int, op func(client, i int) error) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for c := range clients {
		all.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if err := op(c, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// BenchmarkWrites compares updates of a ledger, each of which reads and writes a shared key and creates one, with
// guarded single-key transactions that every client sends to the same store by itself.
func BenchmarkWrites(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{
		"embedded": testetcd.New,
		"process":  func(t testing.TB) string { return testetcd.NewProcess(t).URL },
	} {
		for _, clients := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/ledger/%d", name, clients), func(b *testing.B) {
				db := testdb.Open(b, objdb.Config{Endpoints: []string{url(b)}})
				l := openLedger(b, lead(b, db))
				share(b, clients, func(_, i int) error {
					_, err := l.Update(context.Background(), func(tx *Tx) error {
						tx.Put(fmt.Sprintf("%seps/%d", state, i), payload)
						return increment(state + "nets/n")(tx)
					})
					return err
				})
			})
			b.Run(fmt.Sprintf("%s/raw/%d", name, clients), func(b *testing.B) {
				db := testdb.Open(b, objdb.Config{Endpoints: []string{url(b)}})
				share(b, clients, func(_, i int) error {
					key := fmt.Sprintf("%seps/%d", state, i)
					_, _, err := db.Txn(context.Background(), objdb.Txn{If: []objdb.Guard{objdb.Absent(key)}, Puts: []objdb.KV{{Key: key, Value: payload}}})
					return err
				})
			})
		}
	}
}

// BenchmarkOthersBesideLargePlans measures how long small updates take while large plans are committed one after
// the other, in one transaction each (2,000 keys) or with a journal (20,000), and without large plans.
func BenchmarkOthersBesideLargePlans(b *testing.B) {
	for _, large := range []int{0, 2000, 20000} {
		b.Run(fmt.Sprintf("%d keys", large), func(b *testing.B) {
			db := testdb.New(b)
			l := openLedger(b, lead(b, db))
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var all sync.WaitGroup
			defer all.Wait()
			plans := 0
			if large > 0 {
				all.Go(func() {
					for ; ctx.Err() == nil; plans++ {
						_, err := l.UpdateLarge(context.Background(), func(tx *Tx) error {
							for i := range large {
								tx.Put(fmt.Sprintf("%slarge/%05d", state, i), fmt.Appendf(nil, "%0400d", plans))
							}
							return nil
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			took := make([]time.Duration, b.N)
			for i := range took {
				began := time.Now()
				mustUpdate(b, l, increment(state+"n"))
				took[i] = time.Since(began)
			}
			b.StopTimer()
			stop()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
			b.ReportMetric(float64(took[len(took)-1])/1e6, "max-ms")
			all.Wait()
			b.ReportMetric(float64(plans), "large-plans")
		})
	}
}
