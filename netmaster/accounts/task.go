package accounts

import (
	"runtime"
	"runtime/metrics"
)

// task is one hash, made or compared with.
type task struct {
	Password string
	Against  string // the hash that is compared with; empty: one is made
	Cost     Cost   // of the hash that is made
}

// result is what comes of it.
type result struct {
	Hash  string // that was made
	Right bool   // the password is that of Against
}

func (t task) do() (r result) {
	defer collect()
	if t.Against == "" {
		return result{Hash: t.Cost.hash(t.Password)}
	}
	against, err := parse(t.Against)
	return result{Right: err == nil && against.matches(t.Password)}
}

// quietHeap is a heap, in bytes, that takes longer to look at than a hash takes.
const quietHeap = 256 << 20

// collect frees what a hash used before the next one begins: the collector by itself comes when the heap has doubled,
// and by then the memory of several hashes has come and gone. A heap of quietHeap and more it leaves to that.
func collect() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Uint64() < quietHeap {
		runtime.GC()
	}
}
