package nameserver

import (
	"sync"
	"sync/atomic"
)

// counts are numbers of questions since the start.
type counts struct {
	strangers, refused, answered, forwarded, failed atomic.Uint64
	tenants                                         sync.Map // name -> *tenantCounts
}

type tenantCounts struct{ invalid, unnamed, named atomic.Uint64 }

// Stats are numbers of questions since the start.
type Stats struct {
	Strangers uint64 // from addresses of no endpoint: not answered
	Refused   uint64 // malformed, or of an unsupported kind
	Answered  uint64 // from the names of the tenant
	Forwarded uint64 // answered by upstream servers, or from the cache
	Failed    uint64 // no upstream server answered, too many queries were in progress, or Zones is not complete yet
	Tenants   map[string]TenantStats
}

// TenantStats are the numbers of a tenant, under the names of the original agent.
type TenantStats struct {
	Invalid uint64 `json:"invalidQuery"` // refused
	Unnamed uint64 `json:"noNameRecord"` // the name does not exist, or has no such record
	Named   uint64 `json:"foundNameRecord"`
}

func (c *counts) tenant(name string) *tenantCounts {
	if t, ok := c.tenants.Load(name); ok {
		return t.(*tenantCounts)
	}
	t, _ := c.tenants.LoadOrStore(name, new(tenantCounts))
	return t.(*tenantCounts)
}

// answer counts a query that was answered from the tenant's names; some reports whether the answer had records.
func (c *counts) answer(tenant string, some bool) {
	c.answered.Add(1)
	if some {
		c.tenant(tenant).named.Add(1)
	} else {
		c.tenant(tenant).unnamed.Add(1)
	}
}

func (c *counts) refuse(tenant string) {
	c.refused.Add(1)
	c.tenant(tenant).invalid.Add(1)
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	c := &s.counts
	all := Stats{c.strangers.Load(), c.refused.Load(), c.answered.Load(), c.forwarded.Load(), c.failed.Load(), map[string]TenantStats{}}
	c.tenants.Range(func(name, t any) bool {
		n := t.(*tenantCounts)
		all.Tenants[name.(string)] = TenantStats{n.invalid.Load(), n.unnamed.Load(), n.named.Load()}
		return true
	})
	return all
}

func (s *Stats) add(more Stats) {
	s.Strangers += more.Strangers
	s.Refused += more.Refused
	s.Answered += more.Answered
	s.Forwarded += more.Forwarded
	s.Failed += more.Failed
	for tenant, n := range more.Tenants {
		sum := s.Tenants[tenant]
		s.Tenants[tenant] = TenantStats{sum.Invalid + n.Invalid, sum.Unnamed + n.Unnamed, sum.Named + n.Named}
	}
}
