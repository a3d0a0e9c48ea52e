package gate

// scopeOf returns the scope of a key's record at a revision; of a deleted record while its deletion is among the recent
// changes. It is no node if the key had another record at that revision. The caller holds the lock.
func (x *index) scopeOf(key string, at int64) scope {
	byKey, indexed := scopeByKey(key)
	if !indexed {
		return byKey
	}
	r, there := x.records[key]
	if !there {
		r = x.recent.gone[key]
	}
	if at < r.born {
		return scope{}
	}
	return r.scope
}

// sees reports whether a node may see a record of a scope, by the tenants that it has served since before a
// revision. The caller holds the lock.
func (x *index) sees(host string, s scope, before int64) bool {
	switch {
	case s.all, s.host == host && host != "":
		return true
	case s.tenant == "":
		return false
	}
	if !x.mayServe(host, s.tenant) {
		return false
	}
	served := func(by, tenant string) bool {
		have := x.serves[by][tenant]
		return have != nil && have.since < before
	}
	return served(host, s.tenant) || served(everyNode, s.tenant) || x.routing && served(host, everything)
}

// mayServe reports whether a node has joined for a tenant: a join token without tenants is for all. The caller holds
// the lock.
func (x *index) mayServe(host, tenant string) bool {
	joined, known := x.nodes[host]
	return known && joined.Serves(tenant)
}

// lastAdmission returns the last revision, at or after from, at which a node began to see the records of
// another tenant; 0: none. The caller holds the lock.
func (x *index) lastAdmission(host string, from int64) (last int64) {
	for _, by := range []string{host, everyNode} {
		for tenant, s := range x.serves[by] {
			if counts := tenant == everything && x.routing || tenant != everything && x.mayServe(host, tenant); counts &&
				s.since >= from && !x.sees(host, scope{tenant: tenant}, from) {
				last = max(last, s.since)
			}
		}
	}
	return last
}
