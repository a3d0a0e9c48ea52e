package ovsd

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// crowds are the flows of which rules have more clauses than fit into one (see unite). Who is left out of one changes with
// every rule that comes or goes there, so it is found out after changes, and only where there were some.
type crowds struct {
	places map[*place[string]]crowd
	stale  map[*place[string]]struct{} // those that have changed since settle
	out    map[pipeline.Key]error      // why the rule is not in force, by the rule that is left out
}

// crowd is who is left out at one place, and why.
type crowd struct {
	out []pipeline.Key
	why error
}

func newCrowds() crowds {
	return crowds{places: map[*place[string]]crowd{}, stale: map[*place[string]]struct{}{}, out: map[pipeline.Key]error{}}
}

// look looks at places whose claims have changed.
func (c *crowds) look(places []*place[string]) {
	for _, p := range places {
		if _, was := c.places[p]; was || isCrowd(p) {
			c.stale[p] = struct{}{}
		}
	}
}

// isCrowd tells whether more clauses than fit are claimed at a place.
func isCrowd(p *place[string]) bool {
	return len(p.claims) > maxClauses && isClause(p.claims[len(p.claims)-1].thing)
}

// settle finds out who is left out now, and returns those who were not before.
func (c *crowds) settle() (fresh map[pipeline.Key]error) {
	if len(c.stale) == 0 {
		return nil
	}
	for p := range c.stale {
		if delete(c.places, p); isCrowd(p) {
			c.places[p] = crowd{leftOut(p), fault.New(fault.TooLarge, "more than %d rules of this node have clauses in the flow %s, and those with the highest numbers are "+
				"not in force: let one rule say what several do", maxClauses, describePlace(p.name))}
		}
	}
	clear(c.stale)
	before := c.out
	c.out, fresh = map[pipeline.Key]error{}, map[pipeline.Key]error{}
	for _, at := range c.places {
		for _, owner := range at.out {
			if c.out[owner] = at.why; before[owner] == nil {
				fresh[owner] = at.why
			}
		}
	}
	return fresh
}

// leftOut are the owners of the clauses for which there is no room at a place.
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
