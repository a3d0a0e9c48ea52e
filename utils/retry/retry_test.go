package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitsDoubleUpToTheLimitAndBeginAnewAfterASuccess(t *testing.T) {
	p := NewPacer(100*time.Millisecond, 500*time.Millisecond)
	for _, most := range []time.Duration{100, 200, 400, 500, 500} {
		if d := p.Next(); d < most*time.Millisecond/2 || d > most*time.Millisecond {
			t.Errorf("waits %s, want between half of %d ms and that", d, most)
		}
	}
	p.Reset()
	if d := p.Next(); d > 100*time.Millisecond {
		t.Errorf("after a success it waits %s", d)
	}
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		Pause(ctx, time.Minute)
		if took := time.Since(began); took != time.Second {
			t.Errorf("paused for %s", took)
		}
		Pause(t.Context(), time.Minute)
		if took := time.Since(began); took != time.Second+time.Minute {
			t.Errorf("paused for %s altogether", took)
		}
	})
}
