package agent

import (
	"slices"
	"testing"
	"time"
)

func TestGraceOfAnEndpointThatIsAlone(t *testing.T) {
	ids := []string{"a", "b", "c"}
	belongs := map[string]bool{"a": true}
	o := newOrphans(time.Minute)
	start := time.Unix(0, 0)
	judge := func(why string, after time.Duration, next time.Duration, due ...string) {
		t.Helper()
		gotDue, gotNext := o.judge(ids, func(id string) bool { return belongs[id] }, start.Add(after))
		if !slices.Equal(gotDue, due) || gotNext != next {
			t.Errorf("%s: due %v next %s, want %v %s", why, gotDue, gotNext, due, next)
		}
	}
	judge("seen first", 0, time.Minute)
	judge("half the grace", 30*time.Second, 30*time.Second)
	belongs["b"] = true
	judge("b belongs to something now", 40*time.Second, 20*time.Second)
	belongs["b"] = false
	judge("c is over, b starts anew", 60*time.Second, time.Minute, "c")
	belongs["c"] = true
	judge("c belongs to something", 70*time.Second, 50*time.Second)
}
