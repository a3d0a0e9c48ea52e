package objdb

import (
	"context"
	"math/rand/v2"
	"time"
)

// pacer spaces attempts: each wait is twice the last one, up to a limit,
// with a random part so that many processes do not return at once.
type pacer struct{ first, most, next time.Duration }

func newPacer(first, most time.Duration) *pacer {
	return &pacer{first: first, most: most, next: first}
}

func (b *pacer) reset() { b.next = b.first }

// sleep waits for the next attempt or the end of ctx.
func (b *pacer) sleep(ctx context.Context) {
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
