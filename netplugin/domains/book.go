package domains

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/utils/inet"
)

// Book has the addresses of the names in policies: of one domain, or *.DOMAIN for all domains below it. It has no
// lock; its owner provides one.
type Book map[string]map[netip.Addr]Entry

// Clone returns a copy that shares nothing with the book.
func (b Book) Clone() Book {
	other := make(Book, len(b))
	for name, known := range b {
		other[name] = maps.Clone(known)
	}
	return other
}

// Entry is the state of an address.
type Entry struct {
	Heard time.Time // last time
	Until time.Time // new connections are allowed
	Over  bool      `json:",omitempty"` // Until has passed: only established connections continue
}

// Retention of addresses. Many clients resolve a name once and keep the address, so a TTL of seconds would cut
// them off, and many keep a connection for days. If a name has more addresses than most, those past Until, and
// then the ones received longest ago, are dropped: a flood of answers with new addresses cannot keep out later
// ones.
const (
	least   = time.Hour
	longest = 24 * time.Hour
	begun   = 7 * 24 * time.Hour // beyond Until, for connections
	most    = 1000               // addresses of a name
)

// matches reports whether a name is the name, or below the domain, of a policy.
func matches(pattern, name string) bool {
	if below, wild := strings.CutPrefix(pattern, "*."); wild {
		return name != below && dns.IsSubDomain(below, name) // a label may contain an escaped dot
	}
	return pattern == name
}

// Hear adds an answer to the names of policies that it matches, and returns those with new addresses. news reports
// whether it matches any.
func (b Book) Hear(names []string, a Answer, now time.Time) (changed []string, news bool) {
	until := now.Add(min(max(a.TTL, least), longest))
	for _, name := range names {
		if !matches(name, a.Name) {
			continue
		}
		news = true
		if b[name] == nil {
			b[name] = map[netip.Addr]Entry{}
		}
		known, more := b[name], false
		for _, address := range a.Addresses {
			e, before := Entry{Heard: now, Until: until}, known[address]
			if before.Until.After(until) {
				e.Until = before.Until
			}
			more = more || before.Over || before.Until.IsZero()
			known[address] = e
		}
		if more {
			changed = append(changed, name)
			forgetOldest(known, len(known)-most)
		}
	}
	return changed, news
}

// forgetOldest drops count addresses: first those past Until, then others, and of each first those received
// longest ago.
func forgetOldest(known map[netip.Addr]Entry, count int) {
	if count <= 0 {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(known), func(x, y netip.Addr) int {
		if over := known[x].Over; over != known[y].Over {
			if over {
				return -1
			}
			return 1
		}
		return known[x].Heard.Compare(known[y].Heard)
	})
	for _, address := range oldest[:count] {
		delete(known, address)
	}
}

// Expire applies expiry, and returns the names of which addresses have expired. An entry whose Until is later than
// any answer's can be was received before the clock of the node was set back; it is treated as received now.
func (b Book) Expire(now time.Time) (changed []string) {
	last := now.Add(longest)
	for name, known := range b {
		ended := false
		for address, e := range known {
			switch {
			case e.Until.After(last):
				known[address] = Entry{Heard: now, Until: last, Over: e.Over}
			case !e.Until.Add(begun).After(now):
				delete(known, address)
				ended = true
			case !e.Until.After(now) && !e.Over:
				e.Over = true
				known[address] = e
				ended = true
			}
		}
		if ended {
			changed = append(changed, name)
		}
		if len(known) == 0 {
			delete(b, name)
		}
	}
	return changed
}

// Of returns the addresses of names as prefixes, ascending: those to which new connections are allowed, and those
// to which only established ones continue.
func (b Book) Of(names []string) (open, over []netip.Prefix) {
	for _, name := range names {
		for address, e := range b[name] {
			if e.Over {
				over = append(over, inet.Host(address))
			} else {
				open = append(open, inet.Host(address))
			}
		}
	}
	return ascending(open), ascending(over)
}

func ascending(all []netip.Prefix) []netip.Prefix {
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}
