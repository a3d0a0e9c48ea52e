package nameserver

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Limits of the cache: the number of entries, their total size on the wire, and the time for which one is cached,
// even with a longer TTL. An endpoint can query names with answers of 64 KiB each, so a limit of entries alone
// would not bound the memory.
const (
	maxCached      = 10_000
	maxCachedBytes = 8 << 20
	longestKept    = time.Hour
	longestGone    = 5 * time.Minute // for names that do not exist
	failureKept    = time.Second     // if no server has an answer; the minimum of RFC 9520
)

// cache holds answers of the upstream servers within these limits; the least recently used one is evicted first.
type cache struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[dns.Question]*list.Element
	byUse   *list.List // of *cached, the last used first
	bytes   int
}

type cached struct {
	question dns.Question
	whole    answer
	short    answer // what fits into a datagram
	bytes    int
	from     time.Time
	until    time.Time
}

func newCache(now func() time.Time) *cache {
	return &cache{now: now, entries: map[dns.Question]*list.Element{}, byUse: list.New()}
}

// get returns an answer that has not expired, its TTLs reduced by the time in the cache. An answer may have 4,000
// records; they are copied without the lock.
func (c *cache) get(q dns.Question, datagram bool) (answer, bool) {
	now := c.now()
	entry := c.good(q, now)
	if entry == nil {
		return answer{}, false
	}
	a := entry.whole
	if datagram {
		a = entry.short
	}
	return a.aged(uint32(now.Sub(entry.from) / time.Second)), true
}

// good returns the entry of a question, or nil if there is none or it has expired.
func (c *cache) good(q dns.Question, now time.Time) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[q]
	if !ok {
		return nil
	}
	entry := element.Value.(*cached)
	if !entry.until.After(now) {
		c.remove(element)
		return nil
	}
	c.byUse.MoveToFront(element)
	return entry
}

func (c *cache) put(q dns.Question, a answer) {
	keep, size := cacheTime(q, a), len(q.Name)+a.size()
	if keep <= 0 {
		return
	}
	short := a.truncated(q)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[q]; ok {
		c.remove(old)
	}
	for c.byUse.Len() > 0 && (c.byUse.Len() >= maxCached || c.bytes+size > maxCachedBytes) {
		c.remove(c.byUse.Back())
	}
	now := c.now()
	c.entries[q] = c.byUse.PushFront(&cached{q, a, short, size, now, now.Add(keep)})
	c.bytes += size
}

func (c *cache) remove(element *list.Element) {
	entry := element.Value.(*cached)
	delete(c.entries, entry.question)
	c.byUse.Remove(element)
	c.bytes -= entry.bytes
}

// size returns the size of the records on the wire in bytes, with uncompressed names.
func (a answer) size() (bytes int) {
	for _, r := range slices.Concat(a.answer, a.authority) {
		bytes += dns.Len(r)
	}
	return bytes
}

// cacheTime returns how long the answer to a question may be cached: the shortest TTL of its records and, if it
// has no record of the requested type, at most the time of the SOA record. The TTL of a CNAME record says nothing
// about its target (RFC 2308).
func cacheTime(q dns.Question, a answer) time.Duration {
	if a.failure != nil {
		return failureKept
	}
	keep := longestKept
	if a.isNegative(q.Qtype) {
		keep = negativeTTL(a.authority)
	}
	for _, r := range a.answer {
		keep = min(keep, time.Duration(r.Header().Ttl)*time.Second)
	}
	return keep
}

// isNegative reports whether an answer has no record of a type for the name in the question and its aliases.
func (a answer) isNegative(kind uint16) bool {
	return a.rcode != dns.RcodeSuccess || !slices.ContainsFunc(a.answer, func(r dns.RR) bool {
		return kind == dns.TypeANY || r.Header().Rrtype == kind
	})
}

// negativeTTL returns the TTL of a negative answer by its SOA record; 0 without one.
func negativeTTL(authority []dns.RR) time.Duration {
	if len(authority) == 0 {
		return 0
	}
	keep := longestGone
	for _, r := range authority {
		if soa, ok := r.(*dns.SOA); ok {
			keep = min(keep, time.Duration(min(soa.Hdr.Ttl, soa.Minttl))*time.Second)
		}
	}
	return keep
}

// aged returns a copy of an answer with TTLs reduced by some seconds.
func (a answer) aged(seconds uint32) answer {
	a.answer, a.authority = aged(a.answer, seconds), aged(a.authority, seconds)
	return a
}

// truncated returns the part of an answer that fits into a datagram, so that a query over UDP does not cost the
// copy of a large answer.
func (a answer) truncated(q dns.Question) answer {
	m := dns.Msg{Question: []dns.Question{q}, Answer: a.answer, Ns: a.authority}
	m.Truncate(MaxUDP)
	a.answer, a.authority, a.cut = m.Answer, m.Ns, m.Truncated
	return a
}

// aged returns a copy of records with TTLs reduced by some seconds.
func aged(records []dns.RR, seconds uint32) []dns.RR {
	older := make([]dns.RR, len(records))
	for i, r := range records {
		older[i] = dns.Copy(r)
		older[i].Header().Ttl -= min(seconds, r.Header().Ttl)
	}
	return older
}
