package programmer

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// overflows are the flows for which rules want more clauses of conjunctions than one can have (maxClauses).
// Which rules are left out of a flow changes with every rule that is added or removed there, so it is computed
// after changes, for changed flows only.
type overflows struct {
	places map[*place[string]]overflow
	stale  map[*place[string]]struct{} // those that have changed since settle
	out    map[pipeline.Key]error      // why the rule is not in force, by the rule that is left out
}

// overflow is the rules that are left out of one flow, and why.
type overflow struct {
	out []pipeline.Key
	why error
}

func newOverflows() overflows {
	return overflows{places: map[*place[string]]overflow{}, stale: map[*place[string]]struct{}{}, out: map[pipeline.Key]error{}}
}

// mark makes settle check places whose claims have changed.
func (o *overflows) mark(places []*place[string]) {
	for _, p := range places {
		if _, was := o.places[p]; was || isOverfull(p) {
			o.stale[p] = struct{}{}
		}
	}
}

// isOverfull reports whether more clauses than fit are claimed at a place.
func isOverfull(p *place[string]) bool {
	return len(p.claims) > maxClauses && isClause(p.claims[len(p.claims)-1].thing)
}

// settle computes which rules are left out now, and returns those that were not before.
func (o *overflows) settle() (fresh map[pipeline.Key]error) {
	if len(o.stale) == 0 {
		return nil
	}
	for p := range o.stale {
		if delete(o.places, p); isOverfull(p) {
			o.places[p] = overflow{leftOut(p), fault.New(fault.TooLarge, "more than %d rules of this node have clauses in the flow %s, and those with the highest numbers are "+
				"not in force: let one rule say what several do", maxClauses, describePlace(p.name))}
		}
	}
	clear(o.stale)
	before := o.out
	o.out, fresh = map[pipeline.Key]error{}, map[pipeline.Key]error{}
	for _, at := range o.places {
		for _, owner := range at.out {
			if o.out[owner] = at.why; before[owner] == nil {
				fresh[owner] = at.why
			}
		}
	}
	return fresh
}

// leftOut returns the owners of the clauses for which there is no room at a place.
func leftOut(p *place[string]) (owners []pipeline.Key) {
	all := make([][]openflow.Action, len(p.claims))
	var whole openflow.Flow
	for i, c := range p.claims {
		if flow := flowAt(p.name, c); pipeline.IsClause(flow) {
			all[i] = flow.Actions
			whole.Actions = append(whole.Actions, flow.Actions...)
		}
	}
	whole, _ = pipeline.Merge(whole, whole) // in the order of unite
	out := map[openflow.Action]bool{}
	for _, clause := range whole.Actions[min(len(whole.Actions), maxClauses):] {
		out[clause] = true
	}
	for i, clauses := range all {
		if slices.ContainsFunc(clauses, func(clause openflow.Action) bool { return out[clause] }) {
			owners = append(owners, p.claims[i].owner)
		}
	}
	return owners
}
