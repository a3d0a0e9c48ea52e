package programmer

import (
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// conflicts are the places for which two objects want different items, by the one that came later. The switch
// has what chooseFlow prefers, so of two endpoints or services one lacks something: they are in the status
// until one changes. Rules are not included: priorities decide between them.
type conflicts map[pipeline.Key][]conflict

// note replaces the present conflicts of an object.
func (c conflicts) note(newcomer pipeline.Key, found []conflict) {
	delete(c, newcomer)
	if len(found) > 0 && hasAddress(newcomer) {
		c[newcomer] = found
	}
}

// conflictsTold is how many conflicts the status names at most.
const conflictsTold = 10

// tell names the pairs of objects that are still in conflict.
func (c conflicts) tell(flows *book[string]) []string {
	pairs := map[string]bool{}
	for _, found := range c {
		for _, one := range found {
			if flows.isOpen(one) {
				pairs[one.String()] = true
			}
		}
	}
	told := slices.Sorted(maps.Keys(pairs))
	if more := len(told) - conflictsTold; more > 0 {
		told = append(told[:conflictsTold], fmt.Sprintf("and %d more", more))
	}
	return told
}

// String names the two objects, in an order that does not depend on which came first.
func (c conflict) String() string {
	var pair []string
	for _, key := range []pipeline.Key{c.present, c.newcomer} {
		pair = append(pair, fmt.Sprintf("%s %s", key.Kind, key.ID))
	}
	slices.Sort(pair)
	return fmt.Sprintf("%s and %s want different flows for the same packets", pair[0], pair[1])
}

// isOpen reports whether both objects of a conflict still claim the place, with different contents.
func (b *book[T]) isOpen(c conflict) bool {
	p := b.places[c.place]
	if p == nil {
		return false
	}
	newcomer := slices.IndexFunc(p.claims, func(own claim[T]) bool { return own.owner == c.newcomer })
	present := slices.IndexFunc(p.claims, func(own claim[T]) bool { return own.owner == c.present })
	return newcomer >= 0 && present >= 0 && !b.alike(p.claims[newcomer].thing, p.claims[present].thing)
}
