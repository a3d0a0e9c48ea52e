package domains

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Book has the addresses of names as policies have them: of one domain, or *.DOMAIN for all below
// it. It has no lock; its owner has.
type Book map[string]map[netip.Addr]time.Time // until when an address counts

// How long and how much is kept. Many clients look a name up once and keep the address, so a TTL of seconds
// would cut them off; a name of which there are more addresses has none of the later ones.
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

// Hear takes over an answer for those of the names that it is about, and returns those that have more addresses now. News tells
// whether it is about any.
func (b Book) Hear(names []string, a Answer, now time.Time) (changed []string, news bool) {
	until := now.Add(min(max(a.TTL, least), longest))
	for _, name := range names {
		if !slices.ContainsFunc(a.Names, func(one string) bool { return matches(name, one) }) {
			continue
		}
		news = true
		if b[name] == nil {
			b[name] = map[netip.Addr]time.Time{}
		}
		known := b[name]
		before := len(known)
		for _, address := range a.Addresses {
			if old, again := known[address]; again && old.Before(until) || !again && len(known) < most {
				known[address] = until
			}
		}
		if len(known) != before {
			changed = append(changed, name)
		}
	}
	return changed, news
}

// Expire forgets what does not count any more, and returns the names that have lost addresses.
func (b Book) Expire(now time.Time) (changed []string) {
	for name, known := range b {
		before := len(known)
		maps.DeleteFunc(known, func(_ netip.Addr, until time.Time) bool { return !until.After(now) })
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
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}
