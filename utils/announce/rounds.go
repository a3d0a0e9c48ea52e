package announce

import (
	"context"
	"time"
)

// Rounds are the delays after a change at which everything is announced: the switch may be busy and use a link
// later than it is reported, and the two sides may take seconds to agree on a bond, or half a minute for a
// spanning tree.
var Rounds = []time.Duration{0, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second}

// InRounds calls all in rounds for each value from changed, until ctx ends; a value that arrives meanwhile
// restarts them.
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
