package openflow

import (
	"bytes"
	"slices"
)

// Equal tells whether two groups are the same to a switch; one that is not
// understood is like no other.
func (g Group) Equal(h Group) bool {
	return g.Err == nil && h.Err == nil && g.ID == h.ID && g.Type == h.Type && slices.EqualFunc(g.Buckets, h.Buckets, func(a, b Bucket) bool {
		return (a.Weight == b.Weight || g.Type != GroupSelect) && a.WatchPort == b.WatchPort && a.WatchGroup == b.WatchGroup &&
			equalActions(a.Actions, b.Actions)
	})
}

// Equal tells whether two meters are the same to a switch, which makes up
// bursts that were not asked for. One that is not understood is like no other.
func (m Meter) Equal(n Meter) bool {
	return m.Err == nil && n.Err == nil && m.ID == n.ID && m.Flags == n.Flags && slices.EqualFunc(m.Bands, n.Bands, func(a, b MeterBand) bool {
		return a.Rate == b.Rate && (a.Burst == b.Burst || m.Flags&MeterBurst == 0)
	})
}

func equalActions(a, b []Action) bool { return slices.EqualFunc(a, b, equalAction) }

// equalAction compares the simple actions, which are most, as values. Others
// hold lists, or have several forms that mean the same; their bytes tell.
func equalAction(a, b Action) bool {
	switch a.(type) {
	case Output, OutputGroup, SetField, Load, Move, Conjunction, SetTTL:
		return a == b
	}
	x, y := encoder{}, encoder{}
	x.actions([]Action{a})
	y.actions([]Action{b})
	return bytes.Equal(x.b, y.b)
}
