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
	LongAnswer         // one that is kept until its client has read it
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
	of      map[string]*share
	sweepAt int // so many clients are looked through for those that are silent
	swept   time.Time
}

// share is what a client has.
type share struct {
	rate  *rate.Limiter
	last  time.Time // of what rate has counted
	taken [kinds]int
	told  [tellings]Told
}

// New makes a limiter that has seen no client.
func New(limits Limits) *Limiter {
	return &Limiter{limits: limits, of: map[string]*share{}, sweepAt: 64}
}

// Request counts a request and returns how long it has to wait until it may be dealt with; ok is
// false if that is too long, and it is not counted.
func (s *Limiter) Request(client string, now time.Time) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.share(client, now)
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
func (s *Limiter) Take(client string, kind Lasting, now time.Time) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.share(client, now)
	if of.taken[kind] >= s.limits.Most[kind] {
		return nil, false
	}
	of.taken[kind]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		of.taken[kind]--
	}, true
}

// Tell tells whether something of a client is worth telling, as one of the first or the first one for a while, and
// how many of the kind were not since the last that was.
func (s *Limiter) Tell(client string, kind Telling, now time.Time) (left int64, worth bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.share(client, now).told[kind].Tell(kind, now)
}

// share finds what a client has, or makes it. The lock is held.
func (s *Limiter) share(client string, now time.Time) *share {
	if of := s.of[client]; of != nil {
		return of
	}
	if len(s.of) >= s.sweepAt && (s.sweepAt < remembered || now.Sub(s.swept) >= sweepEvery) {
		s.sweep(now)
	}
	if len(s.of) >= remembered {
		client = ""
		if of := s.of[client]; of != nil {
			return of
		}
	}
	of := &share{rate: rate.NewLimiter(s.limits.Rate, s.limits.Burst)}
	s.of[client] = of
	return of
}

// sweep forgets who is silent and has nothing.
func (s *Limiter) sweep(now time.Time) {
	for client, of := range s.of {
		full := s.limits.Rate == rate.Inf || of.rate.TokensAt(now) >= float64(s.limits.Burst)
		if full && of.taken == [kinds]int{} && silent(of.told, now) {
			delete(s.of, client)
		}
	}
	s.swept, s.sweepAt = now, min(remembered, max(64, 2*len(s.of)))
}
