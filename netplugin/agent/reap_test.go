package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
)

func TestGraceOfAnOrphanedPort(t *testing.T) {
	ports := []drivers.Port{{EndpointID: "a"}, {EndpointID: "b"}, {EndpointID: "c"}}
	recorded := map[string]bool{"a": true}
	o := newOrphans(time.Minute)
	start := time.Unix(0, 0)
	judge := func(why string, after time.Duration, next time.Duration, due ...string) {
		t.Helper()
		gotDue, gotNext := o.judge(ports, func(id string) bool { return recorded[id] }, start.Add(after))
		if !slices.Equal(gotDue, due) || gotNext != next {
			t.Errorf("%s: due %v next %s, want %v %s", why, gotDue, gotNext, due, next)
		}
	}
	judge("seen first", 0, time.Minute)
	judge("half the grace", 30*time.Second, 30*time.Second)
	o.forgive("b")
	judge("somebody works with b", 40*time.Second, 20*time.Second)
	judge("c is over", 60*time.Second, 40*time.Second, "c")
	if !o.condemned("c") || o.condemned("a") {
		t.Error("c is condemned, a is not")
	}
	recorded["c"] = true
	judge("c has a record now", 70*time.Second, 30*time.Second)
	recorded["c"], recorded["b"] = false, true
	judge("c starts anew", 80*time.Second, time.Minute)
}
