package ovsd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Of two endpoints with one address, one has no flows: the status names both until one has another address.
func TestObjectsThatWantTheSamePacketsAreNamed(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := endpoint(7, 0), endpoint(8, 0)
	b.IPv4 = a.IPv4
	r.add(a.ID)
	r.add(b.ID)
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, a, b}})
	r.sync()
	told := r.Status().Conflicts
	if len(told) != 1 || !strings.HasPrefix(told[0], "endpoint ") || !strings.Contains(told[0], a.ID) || !strings.Contains(told[0], b.ID) {
		t.Fatalf("told: %q", told)
	}
	b.IPv4 = endpoint(8, 0).IPv4
	r.give(drivers.Change{Set: []pipeline.Object{b}})
	eventually(t, "nothing is in conflict", func() bool { return len(r.Status().Conflicts) == 0 })
	b.IPv4 = a.IPv4
	r.give(drivers.Change{Set: []pipeline.Object{b}})
	eventually(t, "both are named again", func() bool { return slices.Equal(r.Status().Conflicts, told) })
	r.give(drivers.Change{Remove: []pipeline.Key{a.Key()}})
	eventually(t, "the first is gone", func() bool { return len(r.Status().Conflicts) == 0 })
}
