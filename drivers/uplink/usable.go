package uplink

import (
	"maps"
	"slices"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// sights are the last known states of links, by name.
type sights map[string]sight

type sight struct {
	index int // 0: it did not exist
	working
}

// look records the state of a link, unless err says that it could not be read. returned reports whether packets
// pass again on a link that was seen before.
func (s sights) look(name string, index int, works working, err error) (before, now sight, returned bool) {
	before, seen := s[name]
	if err != nil {
		return before, before, false
	}
	now = sight{index, works}
	s[name] = now
	return before, now, seen && works.returned(before.working)
}

// working reports whether packets pass a link, as far as its carrier shows, and distinguishes periods in which they do.
type working struct {
	works    bool
	changes  uint32
	answered bool // by LACP, if used
}

// returned reports whether packets pass again, or pass a link that the bond did not use.
func (w working) returned(before working) bool {
	return w.works && (!before.works || w.changes != before.changes || w.answered && !before.answered)
}

// usable returns the links that can be ports now, and the problems of links by name.
//
// A link whose name another link has taken is left out until ovs-vswitchd has applied that: the userspace datapath keeps the old
// link open.
func (b *Bridge) usable() (names []string, problems map[string]error) {
	problems = map[string]error{}
	members, answered := b.db.members(b.config.Bridge), b.db.answered(b.config.Bridge)
	for _, name := range b.config.Links {
		link, there, err := b.links.state(name)
		row, ours := members[name]
		before, now, returned := b.sights.look(name, link.index, working{there && ours && !link.down && link.carrier, link.changes, row.answered()}, err)
		if returned {
			b.back.Send()
			b.other.Send() // it may be connected to another port of the outside switch
		}
		unanswered := b.silent.note(name, now.works && answered && !now.answered, time.Now())
		use := true
		switch {
		case err != nil:
			use = ours // unknown: it stays as it is
		case !there:
			use, err = false, fault.New(fault.NotFound, "uplink %s: there is no such link", name)
		case ours && before.index != 0 && before.index != link.index:
			use, err = false, fault.New(fault.Unavailable, "uplink %s: another link has taken its name", name)
		case !ours && b.db.bridgeOf(name) != "":
			use, err = false, fault.New(fault.Conflict, "uplink %s is a port of bridge %s", name, b.db.bridgeOf(name))
		case !ours && b.db.seen() < b.taken[name]:
			use, err = false, fault.New(fault.Unavailable, "uplink %s is being taken off the bridge", name)
		case link.down && ours:
			err = fault.New(fault.Unavailable, "uplink %s is set down", name)
		case !link.carrier && ours:
			err = fault.New(fault.Unavailable, "uplink %s has no carrier", name)
		case unanswered:
			err = errNoLACP(name)
		}
		if use {
			names = append(names, name)
		}
		if err != nil {
			problems[name] = err
		}
	}
	return names, problems
}

// failures returns the links that are ports, but that ovs-vswitchd cannot open.
func (b *Bridge) failures() map[string]error {
	problems := map[string]error{}
	for name, link := range b.db.members(b.config.Bridge) {
		if link.Error != nil {
			problems[name] = fault.New(fault.Unavailable, "uplink %s: %s", name, *link.Error)
		}
	}
	return problems
}

// memberNames returns the names of the uplinks of a bridge.
func (db *database) memberNames(bridge string) []string {
	return slices.Sorted(maps.Keys(db.members(bridge)))
}
