package nameserver

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Bounds of the cache: entries, the bytes of all of them as they are sent, and
// how long one is kept, whatever it says of itself. An endpoint can have 64 KiB
// told to every question, so that entries alone bound nothing.
const (
	maxCached      = 10_000
	maxCachedBytes = 8 << 20
	longestKept    = time.Hour
	longestGone    = 5 * time.Minute // for what does not exist
	failureKept    = time.Second     // where nobody has an answer; the least of RFC 9520
)

// cache keeps what others have answered, within these bounds; the answer that
// nobody has asked for longest goes first.
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

// get returns an answer that is still good, its times to live shortened by how
// long it has been kept. One may have 4,000 records, which are copied while nobody waits.
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

// good is an entry that may be used; nil: there is none.
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
	keep, size := kept(q, a), len(q.Name)+a.size()
	if keep <= 0 {
		return
	}
	short := a.short(q)
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

// size is how many bytes the records have, names not compressed.
func (a answer) size() (bytes int) {
	for _, r := range slices.Concat(a.answer, a.authority) {
		bytes += dns.Len(r)
	}
	return bytes
}

// kept is how long the answer to a question may be kept: as long as the record that is good for
// the shortest time, and where there is none of what was asked for, no longer than its authority
// says that. An alias says for how long it is one, and nothing of its target (RFC 2308).
func kept(q dns.Question, a answer) time.Duration {
	if a.failure != nil {
		return failureKept
	}
	keep := longestKept
	if a.denies(q.Qtype) {
		keep = deniedFor(a.authority)
	}
	for _, r := range a.answer {
		keep = min(keep, time.Duration(r.Header().Ttl)*time.Second)
	}
	return keep
}

// denies tells whether an answer says that there is nothing of a type, at the name that was asked
// for or at the one it is an alias of.
func (a answer) denies(kind uint16) bool {
	return a.rcode != dns.RcodeSuccess || !slices.ContainsFunc(a.answer, func(r dns.RR) bool {
		return kind == dns.TypeANY || r.Header().Rrtype == kind
	})
}

// deniedFor is how long an authority says that something does not exist; without one, no time.
func deniedFor(authority []dns.RR) time.Duration {
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

// aged copies an answer that was kept for some seconds.
func (a answer) aged(seconds uint32) answer {
	a.answer, a.authority = aged(a.answer, seconds), aged(a.authority, seconds)
	return a
}

// short is as much of an answer as fits into a datagram: each question for it costs that, and not what there is in all.
func (a answer) short(q dns.Question) answer {
	m := dns.Msg{Question: []dns.Question{q}, Answer: a.answer, Ns: a.authority}
	m.Truncate(MaxUDP)
	a.answer, a.authority, a.cut = m.Answer, m.Ns, m.Truncated
	return a
}

// aged copies records, their times to live shortened by some seconds.
func aged(records []dns.RR, seconds uint32) []dns.RR {
	older := make([]dns.RR, len(records))
	for i, r := range records {
		older[i] = dns.Copy(r)
		older[i].Header().Ttl -= min(seconds, r.Header().Ttl)
	}
	return older
}
