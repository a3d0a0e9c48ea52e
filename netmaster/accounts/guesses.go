package accounts

import (
	"math"
	"net/netip"
	"sync"
	"time"
)

// Limits of password guessing.
const (
	freeGuesses  = 5               // of one account from one source
	firstDelay   = time.Second     // after those; each further one doubles it
	longestDelay = 5 * time.Minute // without a guess for twice that time, the pair is forgotten
	perSource    = 20              // tries a second, whatever the accounts
	remembered   = 1 << 16         // pairs of account and source, and as many sources
	forgotten    = 2 * longestDelay
	halfForgiven = longestDelay        // half-life of the counts of a source, and of an account from a source
	freeUses     = 100                 // right passwords of an account from a source, until others are ranked before
	familiarFor  = 30 * 24 * time.Hour // how long an account counts as known from a source, after a right password
)

// Guesses decides whether a password may be tried now, and ranks tries in the queue for hashing. Delays are
// per account and source: guessing from one source does not lock the account for others, and sessions
// go on. It is in memory only: a new leader begins with an empty one.
type Guesses struct {
	mu       sync.Mutex
	tries    map[pair]*tries
	sources  map[string]*source
	familiar map[pair]*familiar
}

// pair is an account, tried from a source.
type pair struct{ account, source string }

// tries are the wrong tries of a pair.
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

// familiar are the right passwords of a pair.
type familiar struct {
	last time.Time // when the password was right last
	uses fading
}

// source are the tries from a source, of all accounts.
type source struct {
	last     time.Time // when the last second began
	inSecond int
	wrong    fading // tries that were not right
}

// fading is a count that decays with time.
type fading struct {
	count float64
	at    time.Time
}

// now is the count at a time.
func (f *fading) now(now time.Time) float64 {
	if since := now.Sub(f.at); since > 0 {
		f.count *= math.Exp2(-float64(since) / float64(halfForgiven))
		f.at = now
	}
	return f.count
}

// add counts n more, or less.
func (f *fading) add(n float64, now time.Time) { f.count = max(0, f.now(now)+n) }

// NewGuesses makes an empty Guesses.
func NewGuesses() *Guesses {
	return &Guesses{tries: map[pair]*tries{}, sources: map[string]*source{}, familiar: map[pair]*familiar{}}
}

// Admit counts a try, as a wrong one until Right says otherwise, and returns 0; or
// how long the caller has to wait before it may try, and counts nothing.
func (g *Guesses) Admit(account, address string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	t := entryOf(g.tries, p, now, forgotten, func(t *tries) time.Time { return t.last })
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
	s.inSecond++
	s.wrong.add(1, now)
	t.count++
	t.last = now
	return 0
}

func (g *Guesses) from(address string, now time.Time) *source {
	return entryOf(g.sources, address, now, forgotten, func(s *source) time.Time { return s.last })
}

// Rank is the rank of a try in the queue: the lower, the earlier. It is 0 if the right password of the account
// has come from that source before. Otherwise it rises with the wrong tries of the source lately, of
// all accounts, so that sources that guess wait behind others. More than freeUses right passwords of a pair
// raise it as well: no client can take all hashing for itself.
func (g *Guesses) Rank(account, address string, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	return g.rank(p, now)
}

func (g *Guesses) rank(p pair, now time.Time) int {
	often := 0
	if known := g.familiar[p]; known != nil {
		often = max(0, int(known.uses.now(now))-freeUses)
		if often == 0 && now.Sub(known.last) < familiarFor {
			return 0
		}
	}
	return 1 + int(g.from(p.source, now).wrong.now(now)) + often
}

// RankOfChange is the rank of a change of a password by a user who is logged in. It counts as a use of a right password,
// but does not make the pair a known one.
func (g *Guesses) RankOfChange(account, address string, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	g.familiarOf(p, now).uses.add(1, now)
	return g.rank(p, now)
}

func (g *Guesses) familiarOf(p pair, now time.Time) *familiar {
	return entryOf(g.familiar, p, now, familiarFor, func(f *familiar) time.Time { return f.last })
}

// Right forgets the tries of an account from a source: the last one was right.
func (g *Guesses) Right(account, address string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pair{account, Source(address)}
	delete(g.tries, p)
	g.takeBackFailure(p.source, now)
	known := g.familiarOf(p, now)
	known.last = now
	known.uses.add(1, now)
}

// takeBackFailure removes the failure of a source that Admit has counted in advance.
func (g *Guesses) takeBackFailure(address string, now time.Time) {
	if s := g.sources[address]; s != nil {
		s.wrong.add(-1, now)
	}
}

// Unanswered takes a try back altogether: the directory, for example, did not answer.
func (g *Guesses) Unanswered(account, address string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeBackFamiliar(account, address)
	g.takeBackFailure(Source(address), now)
}

// Unjudged takes a try back for which there was no room in the queue, for its account only. It still counts for the
// source: the rank of a source that sends more than there is room for rises with each try.
func (g *Guesses) Unjudged(account, address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeBackFamiliar(account, address)
}

func (g *Guesses) takeBackFamiliar(account, address string) {
	if t := g.tries[pair{account, Source(address)}]; t != nil && t.count > 0 {
		t.count--
	}
}

// entryOf returns the entry of a key, and makes it if necessary; if there are too many, it evicts one that was not used for long,
// or is older than life.
func entryOf[K comparable, V any](all map[K]*V, key K, now time.Time, life time.Duration, last func(*V) time.Time) *V {
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
