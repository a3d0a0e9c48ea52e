package zones

import "fmt"

// zone is the purpose of a zone's connections.
type zone struct{ tenant, of string }

const (
	forServices = "services"
	forPolicies = "policies"
)

func (z zone) String() string {
	if z.tenant == "" {
		return "connections in routed VLANs, for " + z.of
	}
	return fmt.Sprintf("connections of tenant %s, for %s", z.tenant, z.of)
}

// limitChange is a change of limits.
type limitChange struct {
	set  limits
	gone limits // to be removed
	ours limits // set by a driver, after the change
}

// changes returns the changes by which the zones of tenants get their limits, and others lose theirs.
func (r zoneRule) changes(zones map[uint16]zone, given limits, used map[uint16]zoneUse, audit bool, left func(zone uint16) bool) limitChange {
	c := limitChange{set: limits{}, gone: limits{}, ours: limits{}}
	end := func(zone uint16, now int, ends bool) {
		if ends && audit {
			c.gone[zone] = now
		} else {
			c.ours[zone] = now
		}
	}
	for number, z := range zones {
		now := used[number].limit
		switch limit := r.of(z, now, given[number]); {
		case limit == 0 && now > 0:
			end(number, now, true)
		case limit > 0 && limit == r.limit:
			c.ours[number] = limit
			if limit != now {
				c.set[number] = limit
			}
		}
	}
	for number, limit := range given {
		if _, has := zones[number]; !has && used[number].limit == limit {
			end(number, limit, left(number))
		}
	}
	return c
}

// zoneRule is the limit of the zones of tenants.
type zoneRule struct {
	limit  int
	needed bool // there are tenants to be protected from each other
	chosen bool // the limit is the operator's, who may want more than there was before
	drops  bool // the datapath drops connections for which it has no room
}

// of returns the limit that a zone should have, given its present one and the one that a driver may have set; 0: none.
func (r zoneRule) of(z zone, now, given int) int {
	ours := now == r.limit || now == given
	switch wanted := r.needed && (z.of == forServices || !r.drops); {
	case now == 0 && !wanted, ours && !wanted:
		return 0
	case now == 0, ours, wanted && (r.chosen || now > r.limit):
		return r.limit
	}
	return now
}
