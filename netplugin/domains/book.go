package domains

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/utils/inet"
)

// Book has the addresses of names as policies have them: of one domain, or *.DOMAIN for all below
// it. It has no lock; its owner has.
type Book map[string]map[netip.Addr]Entry

// Entry is what is known of an address.
type Entry struct {
	Heard time.Time // when last
	Until time.Time // it counts
}

// How long and how much is kept. Many clients look a name up once and keep the address, so a TTL of seconds
// would cut them off. Of more addresses, those that were heard longest ago do not count: whoever has new ones answered
// cannot keep out what others are answered later.
const (
	least   = time.Hour
	longest = 24 * time.Hour
	most    = 1000 // addresses of a name
)

// matches tells whether a name is one of those that a policy means.
func matches(pattern, name string) bool {
	if below, wild := strings.CutPrefix(pattern, "*."); wild {
		return strings.HasSuffix(name, "."+below)
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
		known := b[name]
		before := len(known)
		for _, address := range a.Addresses {
			e := Entry{Heard: now, Until: until}
			if old := known[address].Until; old.After(until) {
				e.Until = old
			}
			known[address] = e
		}
		if len(known) > before {
			changed = append(changed, name)
			forgetOldest(known, len(known)-most)
		}
	}
	return changed, news
}

// forgetOldest forgets so many addresses, those that were heard longest ago.
func forgetOldest(known map[netip.Addr]Entry, count int) {
	if count <= 0 {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(known), func(x, y netip.Addr) int { return known[x].Heard.Compare(known[y].Heard) })
	for _, address := range oldest[:count] {
		delete(known, address)
	}
}

// Expire forgets what does not count any more, and returns the names that have lost addresses. What counts for longer than an
// answer can was heard before the clock of the node was put back, and counts as if it was heard now.
func (b Book) Expire(now time.Time) (changed []string) {
	for name, known := range b {
		before := len(known)
		maps.DeleteFunc(known, func(_ netip.Addr, e Entry) bool { return !e.Until.After(now) })
		for address, e := range known {
			if last := now.Add(longest); e.Until.After(last) {
				known[address] = Entry{Heard: now, Until: last}
			}
		}
		if len(known) < before {
			changed = append(changed, name)
		}
		if len(known) == 0 {
			delete(b, name)
		}
	}
	return changed
}

// Of lists the addresses of names, as prefixes, ascending.
func (b Book) Of(names []string) (all []netip.Prefix) {
	for _, name := range names {
		for address := range b[name] {
			all = append(all, inet.Host(address))
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}
