package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Who has seen a tenant before, or may not see it, does not list again for a service of it that hosts lead to; and
// when the tenant has none any more, nodes do not list at the same moment.
func TestNotAllNodesListAtOnce(t *testing.T) {
	x := newIndex(nil, nil)
	x.nodes["h3"] = mastercfg.Joined{Tenants: []string{"blue"}}
	x.serve("h1", "red", 1, 5)
	x.serve(everyNode, "red", 1, 10)
	for host, want := range map[string]int64{"h1": 0, "h2": 10, "h3": 0} {
		if got := x.grown(host, 8); got != want {
			t.Errorf("%s came to see a tenant at %d, want %d", host, got, want)
		}
	}
	x.serve(everyNode, "red", -1, 11)
	x.spread = time.Minute
	x.prune(time.Now().Add(time.Hour))
	now := time.Now()
	lost := func(after time.Duration) (n int) {
		for i := range 200 {
			n += x.lostBy(fmt.Sprintf("node-%d", i), now.Add(after)).times
		}
		return n
	}
	if start, half, end := lost(0), lost(30*time.Second), lost(time.Minute); start > 20 || half < 50 || half > 150 || end != 200 {
		t.Errorf("%d of 200 at once, %d after half of the time, %d after all of it", start, half, end)
	}
	if got := x.grown("h1", 8); got != 0 {
		t.Errorf("h1 came to see a tenant at %d when another reason for it went", got)
	}
}
