package accounts

import (
	"net/netip"
	"sync"
	"time"
)

// Delays for those who guess passwords.
const (
	freeGuesses  = 5               // of one account from one source
	firstDelay   = time.Second     // after those; each further one doubles it
	longestDelay = 5 * time.Minute // and what it takes without a guess until all is forgotten, twice
	perSource    = 20              // tries a second, whatever the accounts
	remembered   = 1 << 16         // pairs of account and source, and as many sources
)

// Guesses decides who may try a password now. A lock concerns one account from one
// source: who guesses elsewhere locks nobody out, and sessions go on. It is of the
// process: a new leader begins with an empty one.
type Guesses struct {
	mu      sync.Mutex
	tries   map[pair]*tries
	sources map[string]*second
}

// pair is an account that somebody tries from a source.
type pair struct{ account, source string }

// tries are those that have not succeeded.
type tries struct {
	count int
	last  time.Time
}

// wait is how long after the last try the next one may come.
func (t *tries) wait() time.Duration {
	if t.count < freeGuesses {
		return 0
	}
	return min(longestDelay, firstDelay<<min(t.count-freeGuesses, 20))
}

// second counts the tries of a source in a second.
type second struct {
	count int
	last  time.Time // the second's begin
}

// NewGuesses makes one that has seen nothing.
func NewGuesses() *Guesses { return &Guesses{tries: map[pair]*tries{}, sources: map[string]*second{}} }

// Admit counts a try, as a wrong one until Right says otherwise, and returns 0; or
// how long the caller has to wait before it may try, and counts nothing.
func (g *Guesses) Admit(account, address string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	t := kept(g.tries, p, now, func(t *tries) time.Time { return t.last })
	if now.Sub(t.last) >= 2*longestDelay {
		t.count = 0
	}
	if wait := t.last.Add(t.wait()).Sub(now); wait > 0 {
		return wait
	}
	s := kept(g.sources, p.source, now, func(s *second) time.Time { return s.last })
	if now.Sub(s.last) >= time.Second {
		*s = second{last: now}
	}
	if s.count >= perSource {
		return s.last.Add(time.Second).Sub(now)
	}
	s.count++
	t.count++
	t.last = now
	return 0
}

// Right forgets the tries of an account from a source: the last one was right.
func (g *Guesses) Right(account, address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.tries, pair{account, Source(address)})
}

// Unjudged takes a try back that was not compared with anything.
func (g *Guesses) Unjudged(account, address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tries[pair{account, Source(address)}]; t != nil && t.count > 0 {
		t.count--
	}
}

// kept finds an entry, or makes one; if there are too many, one that was not used
// for long goes.
func kept[K comparable, V any](all map[K]*V, key K, now time.Time, last func(*V) time.Time) *V {
	if v := all[key]; v != nil {
		return v
	}
	if len(all) >= remembered {
		evict(all, now, last)
	}
	v := new(V)
	all[key] = v
	return v
}

// evict drops what is over among some entries, and the oldest of them if nothing is.
func evict[K comparable, V any](all map[K]*V, now time.Time, last func(*V) time.Time) {
	const some = 64
	var oldest K
	var age time.Duration
	dropped, looked := 0, 0
	for key, v := range all {
		switch a := now.Sub(last(v)); {
		case a >= 2*longestDelay:
			delete(all, key)
			dropped++
		case a >= age:
			oldest, age = key, a
		}
		if looked++; looked == some {
			break
		}
	}
	if dropped == 0 {
		delete(all, oldest)
	}
}

// Source is what a host has one of: its address, or its network of IPv6.
func Source(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}
