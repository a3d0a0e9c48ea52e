package ovsd

import (
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// crowds are the flows of which rules have more clauses than fit into one (see unite). Who is left out changes with
// every rule that comes or goes there, so it is found out for all of them at once, and only after a change.
type crowds struct {
	places map[*place[string]]struct{}
	out    map[pipeline.Key]error // why the rule is not in force, by the rule that is left out
	stale  bool                   // out is of before
}

func newCrowds() crowds {
	return crowds{places: map[*place[string]]struct{}{}, out: map[pipeline.Key]error{}}
}

// look looks at places whose claims have changed.
func (c *crowds) look(places []*place[string]) {
	for _, p := range places {
		_, was := c.places[p]
		switch is := len(p.claims) > maxClauses && isClause(p.claims[len(p.claims)-1].thing); {
		case is:
			c.places[p] = struct{}{}
			c.stale = true
		case was:
			delete(c.places, p)
			c.stale = true
		}
	}
}

// settle finds out who is left out now, and returns those who were not before.
func (c *crowds) settle() (fresh map[pipeline.Key]error) {
	if !c.stale {
		return nil
	}
	before := c.out
	c.out, c.stale, fresh = map[pipeline.Key]error{}, false, map[pipeline.Key]error{}
	for p := range c.places {
		for _, owner := range leftOut(p) {
			c.out[owner] = fault.New(fault.TooLarge, "more than %d rules of this node have clauses in the flow %s, and those with the highest numbers are "+
				"not in force: let one rule say what several do", maxClauses, describePlace(p.name))
			if before[owner] == nil {
				fresh[owner] = c.out[owner]
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
