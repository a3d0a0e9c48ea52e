package ovsd_test

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// BenchmarkAddPort adds and removes a port; only the adding is timed.
func BenchmarkAddPort(b *testing.B) {
	n := newNode(b)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	i := 0
	for b.Loop() {
		id := fmt.Sprint("web.blue-", i)
		i++
		r.add(id)
		b.StopTimer()
		if err := r.RemovePort(patience(b), id); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkUpdateToSync measures a change of one object among a thousand.
func BenchmarkUpdateToSync(b *testing.B) {
	n := newNode(b)
	r := n.start()
	all := drivers.Change{Replace: true, Set: []pipeline.Object{network}}
	for i := range 1000 {
		all.Set = append(all.Set, pipeline.Rule{ID: fmt.Sprint("r", i), Priority: 1, SrcGroup: uint16(i + 1), Protocol: 6, Allow: true})
	}
	r.give(all)
	i := uint16(0)
	for b.Loop() {
		i++
		r.give(drivers.Change{Set: []pipeline.Object{remote(9, i)}})
	}
}
