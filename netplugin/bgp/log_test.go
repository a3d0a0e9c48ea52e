package bgp

import "testing"

// BIRD, once refused, ends what comes next without a word, for a while.
func TestTheEndOfAConnectionDoesNotHideARefusal(t *testing.T) {
	another := refusal(2, 2)
	for _, c := range []struct {
		cause, before string
		says          bool
	}{
		{another, "", true},
		{"read-failed", another, false},
		{"write-failed", notTaken, false},
		{"read-failed", "hold-timer-expired", true},
		{notTaken, another, true},
		{"connection refused", another, true},
		{another, another, false},
		{"", another, false},
	} {
		if got := says(c.cause, c.before); got != c.says {
			t.Errorf("%q after %q is told: %v, want %v", c.cause, c.before, got, c.says)
		}
	}
}
