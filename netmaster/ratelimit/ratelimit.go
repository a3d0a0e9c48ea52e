// Package ratelimit limits the requests of each client: how many a second, how many TLS handshakes, and how many
// long-lasting ones at once.
// So no client slows down the others, whatever it requests, and however often.
//
// A client is a name that the caller chooses: an identity, or the address of a client without one. Clients that
// have been idle for a moment are not remembered. A limit for all clients together is a Semaphore.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Lasting is a kind of long-lasting request.
type Lasting int

// The kinds.
const (
	Watch      Lasting = iota
	Apply              // many changes at once
	LongAnswer         // takes long to compute, or is retained until its client has read it
	kinds
)

// Limits are the limits of one client.
type Limits struct {
	Rate  rate.Limit // requests per second; rate.Inf: any number
	Burst int        // at once
	Most  [kinds]int // at once, by kind
}

const (
	// patience is the longest delay of a request above the rate. Clients that wait for each answer are thus slowed
	// down and never refused.
	patience = time.Second
	// remembered is the largest number of clients; further ones share the limits of one.
	remembered = 1 << 16
	// sweepEvery is how often all clients are checked for idle ones while there are as many as possible.
	sweepEvery = time.Second
)

// Limiter limits each client.
type Limiter struct {
	limits Limits

	mu      sync.Mutex
	of      map[string]*client
	sweepAt int // at this number of clients, idle ones are removed
	swept   time.Time
}

// client is the state of one client.
type client struct {
	rate  *rate.Limiter
	last  time.Time // latest time passed to rate
	taken [kinds]int
	told  [tellings]Told
}

// New returns a limiter without clients.
func New(limits Limits) *Limiter {
	return &Limiter{limits: limits, of: map[string]*client{}, sweepAt: 64}
}

// Request counts a request and returns how long it has to wait. If that is too long, ok is false and the request
// is not counted.
func (l *Limiter) Request(name string, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.client(name, now)
	if now.Before(of.last) {
		// Requests that read the clock one after the other may arrive here in another order, and a Limiter would
		// count the time between them twice.
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

// Take counts a long-lasting request until release is called, once; ok is false if the client has reached its
// limit.
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

// Tell reports whether an event of a client should be reported, as one of the first or as the first for a while,
// and returns how many of the kind were not since the last that was.
func (l *Limiter) Tell(name string, kind Telling, now time.Time) (left int64, worth bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client(name, now).told[kind].Tell(kind, now)
}

// client returns a client, creating it if needed. The lock is held.
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

// sweep removes idle clients that hold nothing.
func (l *Limiter) sweep(now time.Time) {
	for name, of := range l.of {
		full := l.limits.Rate == rate.Inf || of.rate.TokensAt(now) >= float64(l.limits.Burst)
		if full && of.taken == [kinds]int{} && silent(of.told, now) {
			delete(l.of, name)
		}
	}
	l.swept, l.sweepAt = now, min(remembered, max(64, 2*len(l.of)))
}
