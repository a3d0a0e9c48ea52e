package announce

import (
	"context"
	"time"
)

// Rounds are how long after a change all is announced: the switch may be busy and use a link
// later than we see it, and the sides may take seconds to agree on a bond, or half a minute on
// a tree without loops.
var Rounds = []time.Duration{0, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second}

// InRounds calls all in rounds whenever a value comes from changed, until ctx is done; one that
// comes meanwhile begins them anew.
func InRounds(ctx context.Context, changed <-chan struct{}, all func(context.Context)) error {
	left, next := []time.Duration{}, time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			left = Rounds
		case <-next.C:
		}
		if len(left) == 0 {
			continue
		}
		done := left[0]
		all(ctx)
		if left = left[1:]; len(left) > 0 {
			next.Reset(left[0] - done)
		}
	}
}
