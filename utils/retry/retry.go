// Package retry spaces the attempts of a loop that repeats until it succeeds or its context ends.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pacer spaces attempts: each wait is twice the last one, up to a limit, with a random part so that many processes
// do not retry at the same time. It is not safe for concurrent use.
type Pacer struct{ first, most, next time.Duration }

// NewPacer returns a pacer whose first wait is at most first, and no wait longer than most.
func NewPacer(first, most time.Duration) *Pacer {
	return &Pacer{first: first, most: most, next: first}
}

// Reset makes the next wait the first one; call it after a success.
func (p *Pacer) Reset() { p.next = p.first }

// Next returns how long to wait for the next attempt.
func (p *Pacer) Next() time.Duration {
	d := p.next/2 + rand.N(p.next/2+1)
	p.next = min(2*p.next, p.most)
	return d
}

// Sleep waits for the next attempt or the end of ctx.
func (p *Pacer) Sleep(ctx context.Context) { Pause(ctx, p.Next()) }

// Pause waits for d or the end of ctx.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
