package programmer

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// keepBuckets retains those buckets in groups about to change whose connections have to be ended first, as far
// as they fit into a message beside the wanted ones: a group that does not fit would stay as it is, with
// removed providers. The connections of the others are ended without a bucket, and by this run only.
func (l *books) keepBuckets() {
	for _, p := range slices.Clone(l.groups.dirty) {
		if !p.pending {
			continue
		}
		var ends []openflow.CTFlush
		for _, c := range pipeline.Connections(p.have) {
			if l.made[c] > 0 {
				continue
			}
			if l.flushOf(c, p.name).rounds > 0 {
				ends = append(ends, c)
			}
		}
		var rest []entry[openflow.Group]
		if len(ends) > 0 {
			wanted, _ := wantedBy(p.claims)
			kept, left := fitting(pipeline.Ending(p.have, ends), openflow.GroupRoom-sizeOf(wanted.thing))
			for _, c := range left {
				l.flushing[c].leave(p.name)
			}
			rest = []entry[openflow.Group]{{p.name, kept}}
		}
		l.groups.set(pipeline.Key{Kind: kindFlushed, ID: p.name}, rest)
	}
}

// fitting returns as much of a group of buckets to be ended as fits, and the connections of the other buckets.
func fitting(g openflow.Group, room int) (kept openflow.Group, left []openflow.CTFlush) {
	kept = openflow.Group{ID: g.ID, Type: g.Type}
	for _, b := range g.Buckets {
		if room -= b.Size(); room < 0 {
			left = append(left, pipeline.Connections(openflow.Group{Buckets: []openflow.Bucket{b}})...)
			continue
		}
		kept.Buckets = append(kept.Buckets, b)
	}
	return kept, left
}

func sizeOf(g openflow.Group) (bytes int) {
	for _, b := range g.Buckets {
		bytes += b.Size()
	}
	return bytes
}

// leave records that a group retains no bucket of the connections.
func (e *ctFlush) leave(group string) {
	e.groups = slices.DeleteFunc(e.groups, func(g string) bool { return g == group })
}

// flushOf ends connections that a group has made. Several groups make the same ones, for clients of different
// kinds; each added one restarts the rounds.
func (l *books) flushOf(c openflow.CTFlush, group string) *ctFlush {
	e := l.flushing[c]
	switch {
	case e == nil || len(e.groups) == 0:
		e = &ctFlush{connections: c, groups: []string{group}, rounds: flushRounds}
		l.flushing[c] = e
	case !slices.Contains(e.groups, group):
		e.groups, e.rounds, e.begun = append(e.groups, group), flushRounds, false
	}
	return e
}

// uniteGroups adds the buckets that are to be ended to the wanted ones.
func uniteGroups(_ string, claims []claim[openflow.Group]) claim[openflow.Group] {
	best, there := wantedBy(claims)
	i := slices.IndexFunc(claims, isFlushed)
	if i < 0 || !there {
		return claims[len(claims)-1]
	}
	made := map[openflow.CTFlush]bool{}
	for _, c := range pipeline.Connections(best.thing) {
		made[c] = true
	}
	ends := slices.DeleteFunc(pipeline.Connections(claims[i].thing), func(c openflow.CTFlush) bool { return made[c] })
	best.thing.Buckets = slices.Concat(best.thing.Buckets, pipeline.Ending(claims[i].thing, ends).Buckets)
	return best
}

func isFlushed(c claim[openflow.Group]) bool { return c.owner.Kind == kindFlushed }

// wantedBy returns the claim of the object that came last, if there is one.
func wantedBy(claims []claim[openflow.Group]) (best claim[openflow.Group], there bool) {
	for _, c := range slices.Backward(claims) {
		if !isFlushed(c) {
			return c, true
		}
	}
	return best, false
}

// releaseBuckets removes the retained buckets of the connections from the groups. Those of others are retained
// again when the groups are written.
func (l *books) releaseBuckets(e *ctFlush) {
	for _, p := range l.placesOf(e) {
		if slices.ContainsFunc(p.claims, func(c claim[openflow.Group]) bool {
			return isFlushed(c) && slices.Contains(pipeline.Connections(c.thing), e.connections)
		}) {
			l.groups.set(pipeline.Key{Kind: kindFlushed, ID: p.name}, nil)
		}
	}
}
