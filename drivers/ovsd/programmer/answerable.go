package programmer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Kinds of keys that stand for a place itself (errorOwner).
const (
	kindUnwanted pipeline.Kind = "unwanted" // no object claims it
	kindShared   pipeline.Kind = "shared"   // several objects do
)

// errorOwner returns the key to which a refusal at the place is attributed: the object that claims it, or the
// place itself if no object or several claim it. So the refusal of one object does not delay objects that share a
// place with it, and refused deletions do not delay each other.
func (p *place[T]) errorOwner() pipeline.Key {
	switch len(p.claims) {
	case 0:
		return pipeline.Key{Kind: kindUnwanted, ID: p.name}
	case 1:
		return p.claims[0].owner
	}
	return pipeline.Key{Kind: kindShared, ID: p.name}
}

// waits reports whether the switch has to change at a place whose errorOwner is a key.
func (b *book[T]) waits(owner pipeline.Key) bool {
	waiting := func(p *place[T]) bool { return p.pending && p.errorOwner() == owner }
	if p := b.places[owner.ID]; p != nil && waiting(p) {
		return true
	}
	return slices.ContainsFunc(b.owned[owner], waiting)
}

// errorOwners calls each with the errorOwner of every place that an object claims.
func (b *book[T]) errorOwners(owner pipeline.Key, each func(pipeline.Key)) {
	for _, p := range b.owned[owner] {
		each(p.errorOwner())
	}
}

// refusal returns why the switch does not have what an object wants, by itself or with others; nil if no refusal is
// known.
func (b *book[T]) refusal(owner pipeline.Key, all refusals) *refusal {
	for _, p := range b.owned[owner] {
		if !p.pending {
			continue
		}
		if r := all[p.errorOwner()]; r != nil {
			return r
		}
	}
	return nil
}

// claimants returns the objects that claim a place.
func (b *book[T]) claimants(place string) (all []pipeline.Key) {
	if p := b.places[place]; p != nil {
		for _, c := range p.claims {
			all = append(all, c.owner)
		}
	}
	return all
}

// waits reports whether the switch has to change at a place of an errorOwner, so that a refusal of it still matters.
func (l *books) waits(owner pipeline.Key) bool {
	return l.flows.waits(owner) || l.groups.waits(owner) || l.meters.waits(owner)
}

// refusalOf returns why the switch does not have all that an object wants; nil if no refusal is known.
func (p *Programmer) refusalOf(key pipeline.Key) *refusal {
	if len(p.refused) == 0 {
		return nil
	}
	return cmp.Or(p.refused[key], p.books.flows.refusal(key, p.refused), p.books.groups.refusal(key, p.refused), p.books.meters.refusal(key, p.refused))
}

// forgetRefusals clears the refusals of an object, by itself or with others, as it wants something else now.
func (p *Programmer) forgetRefusals(key pipeline.Key) {
	delete(p.refused, key)
	if len(p.refused) == 0 {
		return
	}
	forget := func(owner pipeline.Key) { delete(p.refused, owner) }
	p.books.flows.errorOwners(key, forget)
	p.books.groups.errorOwners(key, forget)
	p.books.meters.errorOwners(key, forget)
}

// sharers names the objects that claim a place, for errors.
func (l *books) sharers(place string) string {
	const named = 3
	all := slices.Concat(l.flows.claimants(place), l.groups.claimants(place), l.meters.claimants(place))
	slices.SortFunc(all, func(a, b pipeline.Key) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	var names []string
	for _, key := range all[:min(len(all), named)] {
		names = append(names, fmt.Sprintf("%s %s", key.Kind, key.ID))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// describe describes a place of the switch in words.
func (l *books) describe(place string) string {
	if l.flows.places[place] != nil {
		return describePlace(place)
	}
	return fmt.Sprintf("group or meter %x", place)
}
