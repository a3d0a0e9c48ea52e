package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The store may lose records of running containers: it is restored from an older backup, wiped and set up again, or
// netmaster removed a node that was cut off for too long. The containers still run, and must still forward.
//
// So the agent holds each endpoint to which a container on this node is attached. The records that it needs (its own,
// its network's, its tenant's VRF) stay in the cache when the store drops them, and the reaper leaves its port alone,
// until it is detached. Meanwhile Unannounced lists it, and the CNI server announces it to netmaster again.
//
// A node that reads the state through a netmaster's gate does not see the rules of a tenant without endpoints
// here in the store, and without rules everything passes. So such a node keeps the tenant's rules as long as
// the store lacks all endpoints of the tenant to which containers here are attached.
//
// A rewound store (restored to an older revision, or replaced) also drops records that other nodes are about to
// announce again. All records that it lacks are kept for RewindGrace, and longer while it has no global
// configuration: no netmaster has set it up yet.
type held struct {
	shown    bool                  // the store is read through a netmaster's gate
	claimed  map[string]struct{}   // endpoints whose ports the reaper leaves alone
	attached map[string]Attachment // endpoints with an attached container
	absent   map[string]time.Time  // keys that the cache keeps though the store lacks them, and until when; zero: as long as needed

	alone      orphans   // endpoints of this node without a claim
	unclaimed  []string  // those of them that have had none for long
	twinSeen   time.Time // when another node was last registered with this node's label
	unreported []string  // endpoints whose operational record has to be deleted, if it exists
	rewound    bool      // the store may have lost operational records, too
	wentBack   bool      // the store was rewound since this process began: a missing record does not prove that its object was deleted
}

func newHeld(cfg Config) held {
	return held{
		shown: cfg.Shown, claimed: make(map[string]struct{}), attached: make(map[string]Attachment), absent: make(map[string]time.Time),
		alone: newOrphans(cfg.SweepGrace),
	}
}

// needs reports whether an attached container depends on a key of the store.
func (h *held) needs(key string) bool {
	if id, ok := strings.CutPrefix(key, mastercfg.EndpointPrefix); ok {
		_, attached := h.attached[id]
		return attached
	}
	if id, ok := strings.CutPrefix(key, mastercfg.PolicyRulePrefix); ok {
		tenant, _, _ := strings.Cut(id, ":") // mastercfg.RuleID
		return h.shown && h.lacksTenant(tenant)
	}
	network, isNetwork := strings.CutPrefix(key, mastercfg.NetworkPrefix)
	tenant, isTenant := strings.CutPrefix(key, mastercfg.VRFPrefix)
	if !isNetwork && !isTenant {
		return key == mastercfg.GlobalConfigKey
	}
	for _, at := range h.attached {
		if isNetwork && at.Endpoint.NetID == network || isTenant && at.Network.Tenant == tenant {
			return true
		}
	}
	return false
}

// lacksTenant reports whether containers of a tenant are attached, and the store lacks the endpoints of all of them.
func (h *held) lacksTenant(tenant string) (lacks bool) {
	for id, at := range h.attached {
		if at.Network.Tenant != tenant {
			continue
		}
		if _, lacks = h.absent[mastercfg.EndpointPrefix+id]; !lacks {
			return false
		}
	}
	return lacks
}

// keep decides whether the cache keeps a key that the store has dropped: a needed key as long as it is needed,
// and after a rewind any other key until the given time.
func (h *held) keep(key string, rewound bool, until time.Time) bool {
	switch {
	case rewound:
		h.absent[key] = until
	case h.needs(key):
		h.absent[key] = time.Time{}
	default:
		return false
	}
	return true
}

// expired removes the keys whose time is over from the absent ones and returns them. next is when another key
// expires; zero: no key has a time.
func (h *held) expired(now time.Time) (keys []string, next time.Time) {
	if _, unset := h.absent[mastercfg.GlobalConfigKey]; unset {
		return nil, time.Time{}
	}
	for key, until := range h.absent {
		switch {
		case h.needs(key):
		case !until.After(now):
			keys = append(keys, key)
			delete(h.absent, key)
		default:
			next = sooner(next, until)
		}
	}
	slices.Sort(keys)
	return keys, next
}

// Hold adds a container that was attached in an earlier run. at is the result of Attach then; an older release has
// saved at least the ids of endpoint and network. It is called before Run, and again with the other fields.
func (a *Agent) Hold(at Attachment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held.claimed[at.Endpoint.ID] = struct{}{}
	a.held.attached[at.Endpoint.ID] = at
}

// recallHeld adds the records to the cache that attached containers need and the store lacks. The caller holds
// the lock, and has not planned the first state yet.
func (a *Agent) recallHeld() error {
	for id, at := range a.held.attached {
		n := at.Endpoint.NetID
		_, endpointKnown := a.cache.endpoints[id]
		if !endpointKnown {
			a.held.unreported = append(a.held.unreported, id)
		}
		a.cache.markAttachedBefore(id)
		if at.VRF == 0 {
			continue // an older release did not save the VRF
		}
		_, networkKnown := a.cache.networks[n]
		for _, r := range []struct {
			key    string
			known  bool
			record any
		}{
			{mastercfg.VRFPrefix + at.Network.Tenant, a.cache.vrfs[at.Network.Tenant] != 0, mastercfg.VRFState{ID: at.Network.Tenant, VRF: at.VRF}},
			{mastercfg.NetworkPrefix + n, networkKnown, at.Network},
			{mastercfg.EndpointPrefix + id, endpointKnown, at.Endpoint},
		} {
			if r.known {
				continue
			}
			value, err := json.Marshal(r.record)
			if err != nil {
				return fmt.Errorf("record %s of an attached container: %w", r.key, err)
			}
			a.cache.apply(r.key, value, 0)
			a.held.absent[r.key] = time.Time{}
		}
	}
	a.expelClashing()
	return nil
}

// existing lists all endpoints of the first state. It returns nil if the store lacks the endpoint of an
// attached container: it may have lost others as well. The caller holds the lock and has called recallHeld.
func (a *Agent) existing() []string {
	if len(a.missingInStore()) > 0 {
		return nil
	}
	return slices.AppendSeq([]string{}, maps.Keys(a.cache.endpoints))
}

// Unannounced lists the endpoints with an attached container that
// the store lacks. It is empty while the store cannot be read.
func (a *Agent) Unannounced() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.followsStore() {
		return nil
	}
	return a.missingInStore()
}

// missingInStore lists, sorted, the endpoints of attached containers that the store lacks. The caller holds the lock.
func (a *Agent) missingInStore() (ids []string) {
	for id := range a.held.attached {
		_, absent := a.held.absent[mastercfg.EndpointPrefix+id]
		if _, known := a.cache.endpoints[id]; absent || !known {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// followsStore reports whether the cache has the present state of a
// store that a netmaster has set up. The caller holds the lock.
func (a *Agent) followsStore() bool {
	if _, unset := a.held.absent[mastercfg.GlobalConfigKey]; unset || a.missing() != nil {
		return false
	}
	return !slices.ContainsFunc(a.mirrors, func(m *follower) bool { return !m.Connected() })
}

// dropExpired deletes expired keys from the cache. It returns the time until the next call; 0: only after a change.
func (a *Agent) dropExpired(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys, next := a.held.expired(now)
	for _, key := range keys {
		a.cache.apply(key, nil, 0)
	}
	if len(keys) > 0 {
		a.wakeWaiters()
	}
	for _, another := range []time.Time{a.cache.expireTenants(now), a.cache.agePeers(now), a.cache.ageNodes(now)} {
		next = sooner(next, another)
	}
	a.wakeHost()
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(now), time.Millisecond)
}

// sooner returns the earlier of two times; zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// expelClashing drops kept records whose numbers a rewound store has assigned to others: a container without a
// network does less harm than a container in another tenant's network. The caller holds the lock.
func (a *Agent) expelClashing() {
	for key := range a.held.absent {
		other := a.cache.sharesNumber(key, func(key string) bool { _, absent := a.held.absent[key]; return !absent })
		if other == "" {
			continue
		}
		a.log.WithFields(logrus.Fields{"key": key, "other": other}).
			Error("number of a record that the store has lost belongs to another now; the record is not kept")
		delete(a.held.absent, key)
		a.cache.apply(key, nil, 0)
	}
}

// sameSegment reports whether two networks share a VNI or tag that must be unique.
func sameSegment(a, b pipeline.Network) bool {
	return a.Encap == b.Encap && a.Tag != 0 && (a.Tag == b.Tag || a.VNI != 0 && a.VNI == b.VNI)
}

// sharesNumber returns a network with the VNI or tag, or a tenant with the VRF, of the record with this key;
// empty if there is none. Only records for which stored returns true count.
func (c *cache) sharesNumber(key string, stored func(key string) bool) (other string) {
	if id, ok := strings.CutPrefix(key, mastercfg.NetworkPrefix); ok {
		mine := c.networks[id].part
		for otherID, n := range c.networks {
			if otherID != id && sameSegment(n.part, mine) && stored(mastercfg.NetworkPrefix+otherID) {
				return otherID
			}
		}
	}
	if tenant, ok := strings.CutPrefix(key, mastercfg.VRFPrefix); ok {
		for otherTenant, vrf := range c.vrfs {
			if otherTenant != tenant && vrf == c.vrfs[tenant] && stored(mastercfg.VRFPrefix+otherTenant) {
				return otherTenant
			}
		}
	}
	return ""
}
