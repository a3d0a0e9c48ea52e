package objdb

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces attempts: each wait is twice the last one, up to a limit,
// with a random part so that many processes do not return at once.
type backoff struct{ first, most, next time.Duration }

func newBackoff(first, most time.Duration) *backoff {
	return &backoff{first: first, most: most, next: first}
}

func (b *backoff) reset() { b.next = b.first }

// sleep waits for the next attempt or the end of ctx.
func (b *backoff) sleep(ctx context.Context) {
	d := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.most)
	pause(ctx, d)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
