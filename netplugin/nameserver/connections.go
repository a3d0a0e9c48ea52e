package nameserver

import (
	"net"
	"net/netip"
	"sync"
)

// connections counts the open connections, by client and by tenant. A connection is not admitted if its client has
// maxOfAsker connections, its tenant has its share, or its client is not an endpoint. A tenant may open a
// connection while it has fewer than are still free; the same rule applies to forwarded queries, see the limits of
// Forwarder.
type connections struct {
	tenant func(asker netip.Addr) (tenant string, known bool)

	mu       sync.Mutex
	open     int
	byAsker  map[netip.Addr]int
	byTenant map[string]int
}

func newConnections(tenant func(netip.Addr) (string, bool)) *connections {
	return &connections{tenant: tenant, byAsker: map[netip.Addr]int{}, byTenant: map[string]int{}}
}

// admit is passed to fairlisten.By.
func (c *connections) admit(from net.Addr) (leave func(), ok bool) {
	asker := askerOf(from)
	tenant, known := c.tenant(asker)
	return func() { c.leave(tenant, asker) }, known && c.enter(tenant, asker)
}

func (c *connections) enter(tenant string, asker netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byAsker[asker] >= maxOfAsker || c.byTenant[tenant] >= maxConnections-c.open {
		return false
	}
	c.open++
	c.byAsker[asker]++
	c.byTenant[tenant]++
	return true
}

func (c *connections) leave(tenant string, asker netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.byAsker[asker]--; c.byAsker[asker] == 0 {
		delete(c.byAsker, asker)
	}
	if c.byTenant[tenant]--; c.byTenant[tenant] == 0 {
		delete(c.byTenant, tenant)
	}
}
