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
	firstDelay   = time.Second     // after those; each further wrong guess doubles it
	longestDelay = 5 * time.Minute // a pair without a guess for twice that time is dropped
	perSource    = 20              // attempts per second, for all accounts
	remembered   = 1 << 16         // maximum number of pairs of account and source, and of sources
	forgotten    = 2 * longestDelay
	halfForgiven = longestDelay        // half-life of the counts of a source, and of an account from a source
	freeUses     = 100                 // right passwords of an account from a source, before its rank gets worse
	familiarFor  = 30 * 24 * time.Hour // how long an account counts as known from a source, after a right password
)

// Guesses decides whether a password may be tried now, and ranks attempts in the queue for hashing. Delays are per
// account and source: guessing from one source does not lock the account for others, and sessions continue. It is
// in memory only: a new leader begins with an empty one.
type Guesses struct {
	mu       sync.Mutex
	tries    map[pair]*tries
	sources  map[string]*source
	familiar map[pair]*familiar
}

// pair is an account, tried from a source.
type pair struct{ account, source string }

// tries are the wrong attempts of a pair.
type tries struct {
	count int
	last  time.Time
}

// wait returns how long after the last attempt the next one may be made.
func (t *tries) wait() time.Duration {
	if t.count < freeGuesses {
		return 0
	}
	return min(longestDelay, firstDelay<<min(t.count-freeGuesses, 20))
}

// familiar are the right passwords of a pair.
type familiar struct {
	last time.Time // when the password was last right
	uses fading
}

// source has the attempts from a source, for all accounts.
type source struct {
	last     time.Time // start of the last second
	inSecond int
	wrong    fading // wrong attempts
}

// fading is a count that decays with time.
type fading struct {
	count float64
	at    time.Time
}

// now returns the count at a time.
func (f *fading) now(now time.Time) float64 {
	if since := now.Sub(f.at); since > 0 {
		f.count *= math.Exp2(-float64(since) / float64(halfForgiven))
		f.at = now
	}
	return f.count
}

// add adds n, which may be negative.
func (f *fading) add(n float64, now time.Time) { f.count = max(0, f.now(now)+n) }

// NewGuesses returns an empty Guesses.
func NewGuesses() *Guesses {
	return &Guesses{tries: map[pair]*tries{}, sources: map[string]*source{}, familiar: map[pair]*familiar{}}
}

// Admit counts an attempt, as a wrong one until Right is called, and returns 0; or it returns how long the caller
// has to wait before the next attempt, and counts nothing.
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

// Rank returns the rank of an attempt in the queue: the lower, the earlier. It is 0 if the right password of the
// account was given from that source before. Otherwise it rises with the recent wrong attempts of the source, for
// all accounts, so that guessing sources wait behind others. More than freeUses right passwords of a pair raise it
// as well: no client can occupy all hashing.
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

// RankOfChange returns the rank of a password change by a logged-in user. It counts as a use of a right password,
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

// Right clears the wrong attempts of an account from a source: the last one was right.
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

// Unanswered removes an attempt completely: the directory, for example, did not answer.
func (g *Guesses) Unanswered(account, address string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeBackFamiliar(account, address)
	g.takeBackFailure(Source(address), now)
}

// Unjudged removes an attempt that found the queue full, for its account only. It still counts for the source: the
// rank of a source that sends more than the queue can hold rises with each attempt.
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

// entryOf returns the entry of a key, and creates it if necessary; if there are too many, it evicts one that was
// not used for long, or is older than life.
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

// evict removes the expired ones among some entries, or the oldest of them if none is expired.
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

// Source returns the source of a client: its address, or its IPv6 network.
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
