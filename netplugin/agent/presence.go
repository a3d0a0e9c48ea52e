package agent

import (
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// presence decides which tenants a node programs, and how they are added and removed.
//
// The first endpoint of a tenant on the node makes the whole tenant wanted, perhaps 50,000 endpoints on other
// nodes. It does not wait for them: networks, rules and endpoints of this node are programmed at once, the
// others in portions, from the backlog. Meanwhile nothing passes that the rules deny. Towards an endpoint that
// is not programmed yet there is no path, or in a bridged network the flooding, for which the rules are
// evaluated for each member on its own node. Packets from such an endpoint are dropped at the tunnel; at an
// uplink, they have passed the rules on its own node. Only additions and removals of tenants use the backlog.
// Every other change is programmed as a whole.
//
// A tenant with services that hosts reach (entrance.go) is wanted on every node.
//
// Routed VLANs share one routing domain across tenants. So an endpoint in one of them makes all of them wanted,
// and the rules of their tenants, in addition to its own tenant.
//
// When its last endpoint is removed, the tenant stays for a while. The next pod often starts soon, and removing
// and adding the tenant again would cost more than keeping it.
type presence struct {
	linger   time.Duration             // how long a tenant without endpoints stays; 0: it is removed at once
	localsOf map[string]int            // tenant, or routedVLANs -> endpoints on this node
	entered  map[string]int            // tenant -> services that hosts reach
	leaving  map[string]time.Time      // tenant, or routedVLANs, without endpoints -> when it is removed
	routedOf index                     // tenant -> its networks that are routed VLANs
	ruled    map[string]bool           // tenants whose rules the switch is known to have had
	backlog  map[pipeline.Key]struct{} // endpoints of other nodes to plan, in portions
}

// routedVLANs is the key of all routed VLANs, which are added
// and removed together like a tenant. No tenant has this name.
const routedVLANs = "*"

func newPresence() presence {
	return presence{localsOf: make(map[string]int), entered: make(map[string]int), leaving: make(map[string]time.Time),
		routedOf: make(index), ruled: make(map[string]bool), backlog: make(map[pipeline.Key]struct{})}
}

// present reports whether the node programs a tenant, or the routed VLANs.
func (p *presence) present(tenant string) bool {
	_, leaving := p.leaving[tenant]
	return leaving || p.localsOf[tenant] > 0 || p.entered[tenant] > 0
}

// presentIn reports whether the node programs a network.
func (c *cache) presentIn(n network) bool {
	return c.tenants.present(n.record.Tenant) || c.routedVLAN(n) && c.tenants.present(routedVLANs)
}

// knowsRulesOf reports whether the node programs the rules of a tenant.
func (c *cache) knowsRulesOf(tenant string) bool {
	return c.tenants.present(tenant) || len(c.tenants.routedOf[tenant]) > 0 && c.tenants.present(routedVLANs)
}

// routedVLAN reports whether a network is in the shared routing domain.
func (c *cache) routedVLAN(n network) bool { return n.part.Encap == pipeline.VLAN && !c.mode.Bridged() }

// share counts a network in (1) or out (-1) if it is a routed VLAN.
func (c *cache) share(id string, n network, step int) {
	if !c.routedVLAN(n) {
		return
	}
	if step > 0 {
		c.tenants.routedOf.add(n.record.Tenant, id)
	} else {
		c.tenants.routedOf.remove(n.record.Tenant, id)
	}
	c.countLocals(routedVLANs, step*c.hostsIn[id][c.host])
	c.markRules(n.record.Tenant)
}

// countEntered updates the number of a tenant's services that hosts reach.
func (c *cache) countEntered(tenant string, step int) {
	wasPresent := c.tenants.present(tenant)
	if c.tenants.entered[tenant] += step; c.tenants.entered[tenant] == 0 {
		delete(c.tenants.entered, tenant)
	}
	if c.tenants.present(tenant) != wasPresent {
		c.markPresence(tenant)
	}
}

// countLocals updates the number of a tenant's endpoints on this node, or of those in routed VLANs.
func (c *cache) countLocals(tenant string, step int) {
	before, wasPresent := c.tenants.localsOf[tenant], c.tenants.present(tenant)
	after := before + step
	switch {
	case after > 0:
		c.tenants.localsOf[tenant] = after
		delete(c.tenants.leaving, tenant)
	case before > 0:
		delete(c.tenants.localsOf, tenant)
		if c.tenants.linger > 0 {
			c.tenants.leaving[tenant] = time.Now().Add(c.tenants.linger)
		}
	}
	if c.tenants.present(tenant) != wasPresent {
		c.markPresence(tenant)
	}
}

// expireTenants removes the tenants without endpoints whose time
// is over, and returns when the next one expires; zero: none does.
func (c *cache) expireTenants(now time.Time) (next time.Time) {
	for tenant, until := range c.tenants.leaving {
		if until.After(now) {
			next = sooner(next, until)
			continue
		}
		delete(c.tenants.leaving, tenant)
		c.markPresence(tenant)
	}
	return next
}

// markPresence marks everything of a tenant, or of all routed VLANs, that was added or removed.
func (c *cache) markPresence(tenant string) {
	delete(c.tenants.ruled, tenant)
	if tenant != routedVLANs {
		c.markComing(c.networksOf[tenant])
		c.markKubeServices(tenant)
		c.markRules(tenant)
		return
	}
	for tenant, networks := range c.tenants.routedOf {
		c.markComing(networks)
		c.markRules(tenant)
	}
}

// markComing marks networks and their local endpoints, and adds endpoints of other nodes to the backlog.
func (c *cache) markComing(networks map[string]struct{}) {
	for id := range networks {
		c.mark(pipeline.KindNetwork, id)
		c.mark(pipeline.KindFloodSet, id)
		c.markServices(id)
		for endpoint := range c.endpointsIn[id] {
			if c.endpoints[endpoint].host == c.host {
				c.mark(pipeline.KindEndpoint, endpoint)
			} else {
				c.tenants.backlog[pipeline.Key{Kind: pipeline.KindEndpoint, ID: endpoint}] = struct{}{}
			}
		}
	}
}

// programmedFirst returns the objects without which an endpoint of this node must not forward: the endpoint,
// its network with its flood set, and its tenant's rules, unless the switch is known to have had these.
func (c *cache) programmedFirst(epID string, n mastercfg.CfgNetworkState) (own, rules []pipeline.Key) {
	own = []pipeline.Key{{Kind: pipeline.KindEndpoint, ID: epID}, {Kind: pipeline.KindNetwork, ID: n.ID}}
	if c.mode.Bridged() {
		own = append(own, pipeline.Key{Kind: pipeline.KindFloodSet, ID: n.ID})
	}
	if c.tenants.ruled[n.Tenant] {
		return own, nil
	}
	for id := range c.rulesOf[n.Tenant] {
		rules = append(rules, pipeline.Key{Kind: pipeline.KindRule, ID: id})
	}
	return own, rules
}
