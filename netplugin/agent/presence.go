package agent

import (
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// presence says which tenants a node serves, and how they come and go.
//
// The first endpoint of a tenant on the node makes all of the tenant wanted,
// perhaps 50,000 endpoints elsewhere. It does not wait for them: networks,
// rules and endpoints of the node itself are programmed at once, the others
// follow in portions, from the backlog. Nothing is let through meanwhile that
// the rules deny: towards an endpoint that is not programmed there is no way,
// or that of a bridge, which asks the rules for each member on its own node; and
// what such an endpoint sends has passed the rules on its own node, which
// cannot reach us without knowing our group. Only coming and going take this
// path. Every other change is programmed together with what changed with it.
//
// A tenant with services that hosts reach (entrance.go) is wanted on every node.
//
// The last endpoint leaves the tenant behind for a while. The next pod is often
// about to start, and taking everything away to put it back costs more than
// keeping it.
type presence struct {
	linger   time.Duration             // how long a tenant without endpoints stays; 0: not at all
	localsOf map[string]int            // tenant -> endpoints on this node
	entered  map[string]int            // tenant -> services that hosts reach
	leaving  map[string]time.Time      // tenant without endpoints that stays until then
	ruled    map[string]bool           // tenants whose rules the switch is known to have
	backlog  map[pipeline.Key]struct{} // endpoints elsewhere to be looked at, a portion at a time
}

func newPresence() presence {
	return presence{localsOf: make(map[string]int), entered: make(map[string]int), leaving: make(map[string]time.Time),
		ruled: make(map[string]bool), backlog: make(map[pipeline.Key]struct{})}
}

// present tells whether the node serves a tenant.
func (p *presence) present(tenant string) bool {
	_, leaving := p.leaving[tenant]
	return leaving || p.localsOf[tenant] > 0 || p.entered[tenant] > 0
}

// countEntered keeps count of a tenant's services that hosts reach.
func (c *cache) countEntered(tenant string, step int) {
	wasPresent := c.present(tenant)
	if c.entered[tenant] += step; c.entered[tenant] == 0 {
		delete(c.entered, tenant)
	}
	if c.present(tenant) != wasPresent {
		c.markPresence(tenant)
	}
}

// countLocals keeps count of a tenant's endpoints on this node.
func (c *cache) countLocals(tenant string, step int) {
	before, wasPresent := c.localsOf[tenant], c.present(tenant)
	after := before + step
	switch {
	case after > 0:
		c.localsOf[tenant] = after
		delete(c.leaving, tenant)
	case before > 0:
		delete(c.localsOf, tenant)
		if c.linger > 0 {
			c.leaving[tenant] = time.Now().Add(c.linger)
		}
	}
	if c.present(tenant) != wasPresent {
		c.markPresence(tenant)
	}
}

// leave takes along the tenants whose time is over, and says when the next
// one's is; zero: there is none.
func (c *cache) leave(now time.Time) (next time.Time) {
	for tenant, until := range c.leaving {
		if until.After(now) {
			if next.IsZero() || until.Before(next) {
				next = until
			}
			continue
		}
		delete(c.leaving, tenant)
		c.markPresence(tenant)
	}
	return next
}

// markPresence has everything of a tenant that comes or goes looked at: what is
// elsewhere a portion at a time, the rest at once.
func (c *cache) markPresence(tenant string) {
	delete(c.ruled, tenant)
	for id := range c.networksOf[tenant] {
		c.mark(pipeline.KindNetwork, id)
		c.mark(pipeline.KindFloodSet, id)
		c.markServices(id)
		for endpoint := range c.endpointsIn[id] {
			if c.endpoints[endpoint].host == c.host {
				c.mark(pipeline.KindEndpoint, endpoint)
			} else {
				c.backlog[pipeline.Key{Kind: pipeline.KindEndpoint, ID: endpoint}] = struct{}{}
			}
		}
	}
	c.markRules(tenant)
}

// programmedFirst are the objects without which an endpoint of this node must
// not forward: itself, its network, whom that floods to, and its tenant's rules,
// unless the switch is known to have had them once.
func (c *cache) programmedFirst(epID string, n mastercfg.CfgNetworkState) (own, rules []pipeline.Key) {
	own = []pipeline.Key{{Kind: pipeline.KindEndpoint, ID: epID}, {Kind: pipeline.KindNetwork, ID: n.ID}}
	if c.mode.Bridged() {
		own = append(own, pipeline.Key{Kind: pipeline.KindFloodSet, ID: n.ID})
	}
	if c.ruled[n.Tenant] {
		return own, nil
	}
	for id := range c.rulesOf[n.Tenant] {
		rules = append(rules, pipeline.Key{Kind: pipeline.KindRule, ID: id})
	}
	return own, rules
}
