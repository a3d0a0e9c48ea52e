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

// sees reports whether a node may see a record of a scope, by the tenants that it serves and that its listing had.
// The caller holds the lock.
func (x *index) sees(host string, s scope, l listing) bool {
	switch {
	case s.all, s.host == host && host != "":
		return true
	case s.tenant == "":
		return false
	}
	if !x.mayServe(host, s.tenant) {
		return false
	}
	serves := func(by, tenant string) bool {
		have := x.serves[by][tenant]
		return have != nil && have.had(l)
	}
	return serves(host, s.tenant) || serves(everyNode, s.tenant) || x.routing && serves(host, everything)
}

// mayServe reports whether a node has joined for a tenant: a join token without tenants is for all. The caller holds
// the lock.
func (x *index) mayServe(host, tenant string) bool {
	joined, known := x.nodes[host]
	return known && joined.Serves(tenant)
}

// lastAdmission returns the last revision, after a listing, at which a node began to see the records of
// another tenant; 0: none. The caller holds the lock.
func (x *index) lastAdmission(host string, l listing) (last int64) {
	for _, by := range []string{host, everyNode} {
		for tenant, s := range x.serves[by] {
			if counts := tenant == everything && x.routing || tenant != everything && x.mayServe(host, tenant); counts &&
				s.since >= l.before && !x.sees(host, scope{tenant: tenant}, l) {
				last = max(last, s.since)
			}
		}
	}
	return last
}
