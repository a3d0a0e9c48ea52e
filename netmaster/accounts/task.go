package accounts

import (
	"runtime"
	"runtime/metrics"
)

// task is one hash to compute, or to compare with.
type task struct {
	Password string
	Against  string // hash to compare with; empty: compute one
	Cost     Cost   // of a computed hash
}

// result is the result of a task.
type result struct {
	Hash  string // the computed hash
	Right bool   // the password matches Against
}

func (t task) do() (r result) {
	defer collect()
	if t.Against == "" {
		return result{Hash: t.Cost.hash(t.Password)}
	}
	against, err := parse(t.Against)
	return result{Right: err == nil && against.matches(t.Password)}
}

// quietHeap is the size of a heap, in bytes, whose collection takes longer than a hash.
const quietHeap = 256 << 20

// collect frees the memory of a hash before the next one: by itself the collector runs when the heap has doubled,
// after several hashes. With a heap of quietHeap or more it leaves it to that.
func collect() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Uint64() < quietHeap {
		runtime.GC()
	}
}
