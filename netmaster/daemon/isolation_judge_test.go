package daemon

import (
	"context"
	"encoding/json"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// judge compares all that users saw and wrote with their rights.
func (c *tenancy) judge(since int64, within time.Duration) {
	c.Helper()
	rights := c.rightsSince(since)
	if len(rights) == 0 {
		c.Fatal("no rights have changed")
	}
	wrong := 0
	for _, s := range c.seen {
		entitled := false
		for _, h := range rights[s.user+" "+s.tenant+s.role] {
			entitled = entitled || h.from <= s.to && s.from < h.to
		}
		if !entitled && wrong < 10 {
			wrong++
			c.Errorf("%s, revisions %d to %d: %s had no role%s in %s: %v", s.what, s.from, s.to, s.user, s.role, s.tenant, rights[s.user+" "+s.tenant+s.role])
		}
	}
	var slowest time.Duration
	for _, e := range c.ends {
		for _, removed := range c.removed[e.user] {
			if !removed.asked.After(e.began) || !removed.done.Before(e.end) {
				continue
			}
			took := e.end.Sub(removed.done)
			if slowest = max(slowest, took); took > within {
				c.Errorf("a watch of %s at %s went on for %s after a role was taken away at %s; it began at %s", e.user, e.at, took,
					removed.done.Format(time.StampMilli), e.began.Format(time.StampMilli))
			}
		}
	}
	c.Logf("%d operations, of which %d were refused, and %d more that were not answered; %d lines of %d watches; %d times that somebody saw or wrote what is of a tenant; a watch ended %s after a role was taken at most",
		c.done.Load(), c.refused.Load(), c.unanswered.Load(), c.heard.Load(), len(c.ends), len(c.seen), slowest)
	if !c.enough() {
		c.Error("too little has happened")
	}
}

// rightsSince returns the tenures in each tenant, by user and tenant, and also by role.
func (c *tenancy) rightsSince(rev int64) map[string][]tenure {
	c.Helper()
	const end = mastercfg.BindingsPrefix + "end"
	if _, err := c.store.Put(c.Context(), end, "{}"); err != nil {
		c.Fatal(err)
	}
	rights := map[string][]tenure{}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	for resp := range c.store.Watch(ctx, mastercfg.BindingsPrefix, clientv3.WithPrefix(), clientv3.WithRev(rev)) {
		if resp.Err() != nil {
			c.Fatal(resp.Err())
		}
		for _, e := range resp.Events {
			var of mastercfg.Bindings
			if e.Kv.Value != nil && json.Unmarshal(e.Kv.Value, &of) != nil {
				c.Fatalf("%s", e.Kv.Value)
			}
			if string(e.Kv.Key) == end {
				return rights
			}
			c.take(rights, string(e.Kv.Key), of, e.Kv.ModRevision)
		}
	}
	c.Fatal("the watch of roles has ended")
	return nil
}

// tenure is the range of revisions in which a user had a role, without the last.
type tenure struct{ from, to int64 }

// take records the roles of a user from a revision on.
func (c *tenancy) take(rights map[string][]tenure, key string, of mastercfg.Bindings, rev int64) {
	const open = int64(1) << 62
	for _, user := range c.users {
		if key != mastercfg.UserBindingsKey(user) {
			continue
		}
		for _, tenant := range c.tenants {
			for _, role := range []string{"", administers} {
				had := rights[user+" "+tenant+role]
				has, was := false, len(had) > 0 && had[len(had)-1].to == open
				for _, b := range of.Bindings {
					has = has || b.Tenant == tenant && (role == "" || role == " "+b.Role)
				}
				switch {
				case has && !was:
					had = append(had, tenure{rev, open})
				case was && !has:
					had[len(had)-1].to = rev
				}
				rights[user+" "+tenant+role] = had
			}
		}
	}
}
