package uplink

import (
	"testing"
	"time"
)

func TestALegHasTimeToAgreeEachTimeItIsSilent(t *testing.T) {
	s, start := silence{}, time.Unix(1000, 0)
	for _, at := range []struct {
		after  time.Duration
		silent bool
		want   bool
	}{
		{0, true, false},
		{negotiation - time.Second, true, false},
		{negotiation, true, true},
		{2 * negotiation, true, true},
		{2*negotiation + time.Second, false, false},
		{2*negotiation + 2*time.Second, true, false},
		{3*negotiation + 2*time.Second, true, true},
	} {
		if got := s.note("up1", at.silent, start.Add(at.after)); got != at.want {
			t.Errorf("after %s, silent %v: it lasts %v, want %v", at.after, at.silent, got, at.want)
		}
	}
	if s.note("up0", true, start); len(s) != 2 {
		t.Errorf("%d legs are silent, want 2", len(s))
	}
}
