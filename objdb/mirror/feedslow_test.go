package mirror

import (
	"runtime"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb/internal/testdb"
)

// A watch that waits for its client retains the changes that it got: one, here. It must not retain everything that
// the feed had then, 32 MiB for each of 512 watches with slow readers (daemon.paceTime allows them to read 64 KiB
// in ten seconds).
func TestAReaderThatWaitsForItsClientKeepsNoMoreThanItWasGiven(t *testing.T) {
	f := NewFeed(testdb.At(t, "http://127.0.0.1:1"), watched)
	f.begun = true
	const size, readers = 128 << 10, 6
	rev := int64(1)
	write := func(n int) {
		for range n {
			rev++
			e := &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(watched + "k"), Value: make([]byte, size), ModRevision: rev}}
			f.add([]*clientv3.Event{e}, rev, false)
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	write(2 * feedBytes / size)
	before := heap()
	var held [readers][]Change
	for i := range held {
		changes, _, _, err := f.After(rev - 1)
		if err != nil || len(changes) != 1 {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		held[i] = changes
		write(2 * feedBytes / size) // the feed has dropped them
	}
	if more := heap() - before; more > readers*2*size {
		t.Errorf("%d readers, who hold one change of %d KiB each, keep %d MiB", readers, size>>10, more>>20)
	}
	runtime.KeepAlive(&held)
}
