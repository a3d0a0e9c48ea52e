package accounts

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
)

// What two hashes at a time take is the memory of two, however many there are.
func TestHashesLeaveNoGarbageToTheNext(t *testing.T) {
	cost := Cost{Memory: DefaultCost.Memory, Time: 1, Threads: 1}
	h := NewHasher(cost, nil)
	h.turns.atOnce = 2
	heap := func() uint64 {
		now := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(now)
		return now[0].Value.Uint64()
	}
	runtime.GC()
	before, most := heap(), uint64(0)
	var hashing sync.WaitGroup
	for range 2 {
		hashing.Go(func() {
			for range 8 {
				if _, err := h.Hash(t.Context(), "a password", 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { hashing.Wait(); close(done) }()
	for {
		select {
		case <-done:
			if one := uint64(cost.Memory) << 10; most > before+5*one/2 {
				t.Errorf("the heap grew by %d MiB, want that of two hashes, %d MiB", (most-before)>>20, 2*one>>20)
			}
			return
		default:
			most = max(most, heap())
			runtime.Gosched()
		}
	}
}
