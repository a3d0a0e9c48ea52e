package api

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

// clients is the number of requests that tests send at the same time.
const clients = 16

// inParallel runs work from clients goroutines, n times in all, and returns the rate per second.
func inParallel(clients, n int, work func(i int) error) (float64, error) {
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var running sync.WaitGroup
	began := time.Now()
	for range clients {
		running.Go(func() {
			for i := int(next.Add(1)); i <= n && failure.Load() == nil; i = int(next.Add(1)) {
				if err := work(i); err != nil {
					failure.Store(&err)
				}
			}
		})
	}
	running.Wait()
	rate := float64(n) / time.Since(began).Seconds()
	if err := failure.Load(); err != nil {
		return rate, *err
	}
	return rate, nil
}

// BenchmarkCreateEndpoint compares the rate of createEndpoint over REST with
// that of single-key guarded transactions on the same etcd.
func BenchmarkCreateEndpoint(b *testing.B) {
	for _, clients := range []int{16, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			m := ready(b)
			m.client.MaxIdleConnsPerHost = clients
			m.ok("POST", "networks/blue:big", `{"tenantName":"blue","networkName":"big","encap":"vxlan","subnet":"10.64.0.0/16"}`)
			value := make([]byte, 420)
			raw, err := inParallel(clients, b.N, func(i int) error {
				key := fmt.Sprintf("/contiv.io/oper/bench/%d", i)
				_, _, err := m.db.Txn(b.Context(), objdb.Txn{If: []objdb.Guard{objdb.Absent(key)}, Puts: []objdb.KV{{Key: key, Value: value}}})
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			rest, err := inParallel(clients, b.N, func(i int) error {
				_, failure := tryPlug[mastercfg.CreateEndpointResponse](m, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
					TenantName: "blue", NetworkName: "big", ConfigEP: mastercfg.ConfigEP{Container: fmt.Sprintf("c%d", i), Host: "h1"}})
				if failure != "" {
					return fmt.Errorf("%s", failure)
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(rest, "endpoints/s")
			b.ReportMetric(raw, "raw-txns/s")
			b.ReportMetric(rest/raw, "ratio")
		})
	}
}
