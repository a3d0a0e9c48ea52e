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
// what such an endpoint sends through a tunnel is dropped, and what comes of it by an
// uplink has passed the rules on its own node. Only coming and going take this
// path. Every other change is programmed together with what changed with it.
//
// A tenant with services that hosts reach (entrance.go) is wanted on every node.
//
// Routed VLANs share one routing domain, whatever their tenants. So an endpoint in
// one of them makes all of them wanted, and the rules of their tenants, beside
// its own tenant.
//
// The last endpoint leaves the tenant behind for a while. The next pod is often
// about to start, and taking everything away to put it back costs more than
// keeping it.
type presence struct {
	linger   time.Duration             // how long a tenant without endpoints stays; 0: not at all
	localsOf map[string]int            // tenant, or routedVLANs -> endpoints on this node
	entered  map[string]int            // tenant -> services that hosts reach
	leaving  map[string]time.Time      // tenant, or routedVLANs, without endpoints that stays until then
	routedOf index                     // tenant -> its networks that are routed VLANs
	ruled    map[string]bool           // tenants whose rules the switch is known to have
	backlog  map[pipeline.Key]struct{} // endpoints elsewhere to be looked at, a portion at a time
}

// routedVLANs come and go together, as a tenant's networks do. It is no tenant's name.
const routedVLANs = "*"

func newPresence() presence {
	return presence{localsOf: make(map[string]int), entered: make(map[string]int), leaving: make(map[string]time.Time),
		routedOf: make(index), ruled: make(map[string]bool), backlog: make(map[pipeline.Key]struct{})}
}

// present tells whether the node programs a tenant, or the routed VLANs.
func (p *presence) present(tenant string) bool {
	_, leaving := p.leaving[tenant]
	return leaving || p.localsOf[tenant] > 0 || p.entered[tenant] > 0
}

// presentIn tells whether the node programs a network.
func (c *cache) presentIn(n network) bool {
	return c.present(n.record.Tenant) || c.routedVLAN(n) && c.present(routedVLANs)
}

// knowsRulesOf tells whether the node programs the rules of a tenant.
func (c *cache) knowsRulesOf(tenant string) bool {
	return c.present(tenant) || len(c.routedOf[tenant]) > 0 && c.present(routedVLANs)
}

// routedVLAN tells whether tenants share a network's routing domain.
func (c *cache) routedVLAN(n network) bool { return n.part.Encap == pipeline.VLAN && !c.mode.Bridged() }

// share counts a network in (1) or out (-1) if it is a routed VLAN.
func (c *cache) share(id string, n network, step int) {
	if !c.routedVLAN(n) {
		return
	}
	if step > 0 {
		c.routedOf.add(n.record.Tenant, id)
	} else {
		c.routedOf.remove(n.record.Tenant, id)
	}
	c.countLocals(routedVLANs, step*c.hostsIn[id][c.host])
	c.markRules(n.record.Tenant)
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

// countLocals keeps count of a tenant's endpoints on this node, or those in routed VLANs.
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

// expireTenants removes the tenants without endpoints whose time is over, and returns when the next
// one expires; zero: there is none.
func (c *cache) expireTenants(now time.Time) (next time.Time) {
	for tenant, until := range c.leaving {
		if until.After(now) {
			next = sooner(next, until)
			continue
		}
		delete(c.leaving, tenant)
		c.markPresence(tenant)
	}
	return next
}

// markPresence has everything of a tenant, or all routed VLANs, that come or go looked at.
func (c *cache) markPresence(tenant string) {
	delete(c.ruled, tenant)
	if tenant != routedVLANs {
		c.markComing(c.networksOf[tenant])
		c.markKubeServices(tenant)
		c.markRules(tenant)
		return
	}
	for tenant, networks := range c.routedOf {
		c.markComing(networks)
		c.markRules(tenant)
	}
}

// markComing has networks looked at: what is elsewhere a portion at a time, the rest
// at once.
func (c *cache) markComing(networks map[string]struct{}) {
	for id := range networks {
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
