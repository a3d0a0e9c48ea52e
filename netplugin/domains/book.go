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

// Book has the addresses of names as policies have them: of one domain, or *.DOMAIN for all below
// it. It has no lock; its owner has.
type Book map[string]map[netip.Addr]Entry

// Clone is a copy that its owner's lock does not concern.
func (b Book) Clone() Book {
	other := make(Book, len(b))
	for name, known := range b {
		other[name] = maps.Clone(known)
	}
	return other
}

// Entry is what is known of an address.
type Entry struct {
	Heard time.Time // when last
	Until time.Time // connections to it may begin
	Over  bool      `json:",omitempty"` // that is over: those that have begun go on
}

// How long and how much is kept. Many clients look a name up once and keep the address, so a TTL of seconds
// would cut them off, and many keep a connection for days. Of more addresses, those that are over and then those that
// were heard longest ago do not count: whoever has new ones answered cannot keep out what others are answered later.
const (
	least   = time.Hour
	longest = 24 * time.Hour
	begun   = 7 * 24 * time.Hour // beyond Until, for connections
	most    = 1000               // addresses of a name
)

// matches tells whether a name is one of those that a policy means.
func matches(pattern, name string) bool {
	if below, wild := strings.CutPrefix(pattern, "*."); wild {
		return name != below && dns.IsSubDomain(below, name) // a label may have a dot in it, which is no border
	}
	return pattern == name
}

// Hear takes over an answer for those of the names that it is about, and returns those that have other addresses now. News tells
// whether it is about any.
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

// forgetOldest forgets so many addresses: those that are over, then others, of each those that were heard longest ago.
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

// Expire ends what does not count any more, and returns the names of which it has ended anything. What counts for longer than an
// answer can was heard before the clock of the node was put back, and counts as if it was heard now.
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

// Of lists the addresses of names, as prefixes, ascending: those to which connections may begin, and those to which
// only what has begun goes on.
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
