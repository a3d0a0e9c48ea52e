package programmer

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A connection that is admitted in an epoch is not judged again before the next one. So
// there is an epoch in the switch only while it has everything that judges. When it refuses some of
// that, the epoch is taken away: every packet is judged then, by the flows that there are.
// When it takes it at last, by another try, the epoch comes back, under its number or the next one. Nothing is admitted
// in an epoch while there is none; what was admitted in it before it was taken away is not judged again.

// epoch is the epoch that is wanted.
type epoch struct {
	owner    pipeline.Key
	wants    packed
	withheld bool // the switch is not to have it now
}

// setEpoch is set for the epoch.
func (l *books) setEpoch(owner pipeline.Key, p packed) []conflict {
	l.epoch.owner, l.epoch.wants = owner, p
	if l.epoch.withheld {
		p = packed{}
	}
	return l.flows.set(owner, p.flows)
}

// setEpochWithheld sets whether the epoch is withheld from the switch.
func (l *books) setEpochWithheld(withheld bool) {
	if l.epoch.withheld != withheld {
		l.epoch.withheld = withheld
		l.setEpoch(l.epoch.owner, l.epoch.wants)
	}
}

// isEpoch tells whether the epoch wants a flow.
func isEpoch(p *place[string]) bool {
	return len(p.claims) > 0 && p.claims[0].owner.Kind == pipeline.KindEpoch
}

// affectsJudgement tells whether connections may be judged wrongly while a step at a place is refused: a rule is missing, or an
// endpoint has its former class. An endpoint without flows counts like an unknown one; meters and groups do not affect it.
func affectsJudgement(p *place[string]) bool {
	ofTier := func(c claim[string]) bool { return c.owner.Kind == pipeline.KindTierRule }
	return slices.ContainsFunc(p.claims, ofTier) || pipeline.Judges(openflow.PackedFlow{Key: p.name}.Table(), p.there)
}

// affectsJudgement tells whether one of the refused steps does.
func (r refused) affectsJudgement() bool {
	for _, problem := range r {
		if problem.judges {
			return true
		}
	}
	return false
}

// updateEpoch writes the epoch to the switch, or withholds it while refused steps affect judgement.
func (p *Programmer) updateEpoch() {
	withheld := false
	for _, r := range p.refused {
		withheld = withheld || r.judges
	}
	p.books.setEpochWithheld(withheld)
}
