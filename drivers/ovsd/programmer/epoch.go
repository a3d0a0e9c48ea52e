package programmer

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Connections are admitted in an epoch, and packets of an admitted connection skip the policy tables until the
// next epoch. That is right only if the switch has all policy flows. While it refuses some, the flows of the epoch
// are withheld from it: no connection is admitted, and each packet is evaluated by the existing policy flows. Once
// a retry succeeds, the epoch is written again, under its old number or a new one. Connections that were admitted
// in it before are not evaluated again under the old number.

// epoch is the epoch that is wanted.
type epoch struct {
	owner    pipeline.Key
	wants    packed
	withheld bool // from the switch
}

// setEpoch sets the wanted epoch, and writes its flows to the book unless it is withheld.
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

// isEpoch reports whether the epoch wants a flow.
func isEpoch(p *place[string]) bool {
	return len(p.claims) > 0 && p.claims[0].owner.Kind == pipeline.KindEpoch
}

// affectsJudgement reports whether policies may be evaluated wrongly while the switch refuses a step at a place: a
// rule is missing, or an endpoint has its former class. An endpoint without flows counts as unknown; meters and
// groups do not matter.
func affectsJudgement(p *place[string]) bool {
	ofTier := func(c claim[string]) bool { return c.owner.Kind == pipeline.KindTierRule }
	return slices.ContainsFunc(p.claims, ofTier) || pipeline.Judges(openflow.PackedFlow{Key: p.name}.Table(), p.there)
}

// affectsJudgement reports whether one of the refused steps affects judgement.
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
