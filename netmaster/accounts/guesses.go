package accounts

import (
	"math"
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
	forgotten    = 2 * longestDelay
	halfForgiven = longestDelay        // of what a source has tried, half
	familiarFor  = 30 * 24 * time.Hour // an account from a source, after a right password
)

// Guesses decides who may try a password now, and who goes first. A lock concerns one account
// from one source: who guesses elsewhere locks nobody out, and sessions go on. It is of the
// process: a new leader begins with an empty one.
type Guesses struct {
	mu       sync.Mutex
	tries    map[pair]*tries
	sources  map[string]*source
	familiar map[pair]*time.Time // when the password was right last
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

// source is what was tried from somewhere, whatever the accounts.
type source struct {
	last     time.Time // the last second's begin
	inSecond int
	wrong    float64 // tries that were not right; those of long ago count less
	counted  time.Time
}

// forgive lets what was wrong count less as time passes.
func (s *source) forgive(now time.Time) {
	if since := now.Sub(s.counted); since > 0 {
		s.wrong *= math.Exp2(-float64(since) / float64(halfForgiven))
		s.counted = now
	}
}

// NewGuesses makes one that has seen nothing.
func NewGuesses() *Guesses {
	return &Guesses{tries: map[pair]*tries{}, sources: map[string]*source{}, familiar: map[pair]*time.Time{}}
}

// Admit counts a try, as a wrong one until Right says otherwise, and returns 0; or
// how long the caller has to wait before it may try, and counts nothing.
func (g *Guesses) Admit(account, address string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	t := kept(g.tries, p, now, forgotten, func(t *tries) time.Time { return t.last })
	if now.Sub(t.last) >= forgotten {
		t.count = 0
	}
	if wait := t.last.Add(t.wait()).Sub(now); wait > 0 {
		return wait
	}
	s := g.from(p.source, now)
	if now.Sub(s.last) >= time.Second {
		s.last, s.inSecond = now, 0
	}
	if s.inSecond >= perSource {
		return s.last.Add(time.Second).Sub(now)
	}
	s.forgive(now)
	s.inSecond++
	s.wrong++
	t.count++
	t.last = now
	return 0
}

func (g *Guesses) from(address string, now time.Time) *source {
	return kept(g.sources, address, now, forgotten, func(s *source) time.Time { return s.last })
}

// Rank is who goes first where not all can be dealt with: the lower, the earlier. It is 0 for
// who has had the right password of this account from there before, and higher the more was tried from the
// same source lately, whatever the accounts, that was not right: who guesses much waits
// behind who does not.
func (g *Guesses) Rank(account, address string, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	if last := g.familiar[p]; last != nil && now.Sub(*last) < familiarFor {
		return 0
	}
	s := g.from(p.source, now)
	s.forgive(now)
	return 1 + int(s.wrong)
}

// Right forgets the tries of an account from a source: the last one was right.
func (g *Guesses) Right(account, address string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	delete(g.tries, p)
	g.notWrong(p.source)
	*kept(g.familiar, p, now, familiarFor, func(last *time.Time) time.Time { return *last }) = now
}

// notWrong takes back what Admit has counted for a source; not what was wrong.
func (g *Guesses) notWrong(address string) {
	if s := g.sources[address]; s != nil {
		s.wrong = max(0, s.wrong-1)
	}
}

// Unanswered takes a try back altogether: who was asked about it, such as the directory, did not answer.
func (g *Guesses) Unanswered(account, address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeBack(account, address)
	g.notWrong(Source(address))
}

// Unjudged takes a try back for which there was no place. Its source has tried all the same: the rank
// of who sends more than there are places for rises with each try.
func (g *Guesses) Unjudged(account, address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeBack(account, address)
}

func (g *Guesses) takeBack(account, address string) {
	if t := g.tries[pair{account, Source(address)}]; t != nil && t.count > 0 {
		t.count--
	}
}

// kept finds an entry, or makes one; if there are too many, one that was not used
// for long goes, or that is older than life.
func kept[K comparable, V any](all map[K]*V, key K, now time.Time, life time.Duration, last func(*V) time.Time) *V {
	if v := all[key]; v != nil {
		return v
	}
	if len(all) >= remembered {
		evict(all, now, life, last)
	}
	v := new(V)
	all[key] = v
	return v
}

// evict drops what is over among some entries, and the oldest of them if nothing is.
func evict[K comparable, V any](all map[K]*V, now time.Time, life time.Duration, last func(*V) time.Time) {
	const some = 64
	var oldest K
	var age time.Duration
	dropped, looked := 0, 0
	for key, v := range all {
		switch a := now.Sub(last(v)); {
		case a >= life:
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
