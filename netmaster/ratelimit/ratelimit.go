// Package ratelimit limits the requests of each client: how many a second, and how many of those that last it has at once. So no
// client slows down the others, whatever it asks, and however often.
//
// A client is a name that the caller chooses: an identity, or the address of a client without
// one. Nothing is kept of clients that have been silent for a moment. What all clients have together is a Semaphore.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Lasting is a kind of request that lasts.
type Lasting int

// The kinds.
const (
	Watch      Lasting = iota
	Apply              // many changes at once
	LongAnswer         // one that takes long to make, or is kept until its client has read it
	kinds
)

// Limits are what one client may have.
type Limits struct {
	Rate  rate.Limit // requests per second; rate.Inf: any number
	Burst int        // at once
	Most  [kinds]int // at once, by kind
}

const (
	// patience is how long a request waits that comes a little too early: clients that wait for each answer
	// are slowed down by it and see no refusal.
	patience = time.Second
	// remembered is how many clients there can be; the others share what one may have.
	remembered = 1 << 16
	// sweepEvery is how often all clients are looked through while there are as many as there can be.
	sweepEvery = time.Second
)

// Limiter limits each client.
type Limiter struct {
	limits Limits

	mu      sync.Mutex
	of      map[string]*client
	sweepAt int // so many clients are looked through for those that are silent
	swept   time.Time
}

// client is what one has done and has.
type client struct {
	rate  *rate.Limiter
	last  time.Time // of what rate has counted
	taken [kinds]int
	told  [tellings]Told
}

// New makes a limiter that has seen no client.
func New(limits Limits) *Limiter {
	return &Limiter{limits: limits, of: map[string]*client{}, sweepAt: 64}
}

// Request counts a request and returns how long it has to wait until it may be dealt with; ok is
// false if that is too long, and it is not counted.
func (l *Limiter) Request(name string, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.client(name, now)
	if now.Before(of.last) {
		// Requests that look at the clock one after the other may come here in another order, and a Limiter counts
		// the time between both twice then.
		now = of.last
	}
	of.last = now
	r := of.rate.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > patience {
		r.CancelAt(now)
		return wait, false
	}
	return wait, true
}

// Take counts one that lasts, until release, which is called once; ok is false if there are as many as there may be.
func (l *Limiter) Take(name string, kind Lasting, now time.Time) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.client(name, now)
	if of.taken[kind] >= l.limits.Most[kind] {
		return nil, false
	}
	of.taken[kind]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		of.taken[kind]--
	}, true
}

// Tell tells whether something of a client is worth telling, as one of the first or the first one for a while, and
// how many of the kind were not since the last that was.
func (l *Limiter) Tell(name string, kind Telling, now time.Time) (left int64, worth bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client(name, now).told[kind].Tell(kind, now)
}

// client finds one, or makes it. The lock is held.
func (l *Limiter) client(name string, now time.Time) *client {
	if of := l.of[name]; of != nil {
		return of
	}
	if len(l.of) >= l.sweepAt && (l.sweepAt < remembered || now.Sub(l.swept) >= sweepEvery) {
		l.sweep(now)
	}
	if len(l.of) >= remembered {
		name = ""
		if of := l.of[name]; of != nil {
			return of
		}
	}
	of := &client{rate: rate.NewLimiter(l.limits.Rate, l.limits.Burst)}
	l.of[name] = of
	return of
}

// sweep forgets who is silent and has nothing.
func (l *Limiter) sweep(now time.Time) {
	for name, of := range l.of {
		full := l.limits.Rate == rate.Inf || of.rate.TokensAt(now) >= float64(l.limits.Burst)
		if full && of.taken == [kinds]int{} && silent(of.told, now) {
			delete(l.of, name)
		}
	}
	l.swept, l.sweepAt = now, min(remembered, max(64, 2*len(l.of)))
}
