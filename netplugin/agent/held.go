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

// The store may lose records of containers that run: it is restored from an
// older backup, wiped and set up anew, or netmaster gave a node up that was cut
// off for too long. The container is still there, and its packets shall be, too.
//
// So an endpoint that somebody on this node is attached to is held. What it
// needs of the store (its record, its network's, its tenant's VRF) stays in the
// cache when the store drops it, and its port is nobody's to reap, until it is
// detached. Meanwhile the CNI server is told that the store does not know it
// and announces it again.
//
// A node that reads the state through netmasters is shown no rules of a tenant
// of which the store has no endpoint here, and where no rule is, everything may
// pass. So there the tenant's rules stay as long as the store lacks all of its
// endpoints that containers here are attached to.
//
// A store that went back also drops what other nodes are about to announce. All
// that it lacks is kept for RewindGrace, and longer while it has no global
// configuration: a store that no netmaster has set up says nothing.
type held struct {
	shown    bool                  // the store is what netmasters show
	claimed  map[string]struct{}   // endpoints whose port is in somebody's hands
	attached map[string]Attachment // endpoints with a container behind the port
	absent   map[string]time.Time  // keys the cache keeps though the store lacks them, and until when

	unclaimed  []string  // endpoints of this node that nobody has claimed for long
	twinSeen   time.Time // when another node was last registered with this one's label
	unreported []string  // endpoints whose operational record has to go, if there is one
	rewound    bool      // the store may have lost operational records, too
	wentBack   bool      // the store has once lost records since this process began: that one is not there says nothing of what it is about
}

func newHeld(shown bool) held {
	return held{shown: shown, claimed: make(map[string]struct{}), attached: make(map[string]Attachment), absent: make(map[string]time.Time)}
}

// needs tells whether an attached container depends on a key of the store.
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

// lacksTenant tells whether containers of a tenant are attached, and the store lacks the endpoints of all of them.
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

// keep decides about a key the store has dropped. A key that is needed stays as
// long as it is; with rewound set, any other stays until a time.
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

// expired takes out the keys that need not be kept any longer, and tells when
// to ask again; zero: no key waits for its time.
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

// Hold tells the agent of a container that was attached in an earlier run, with
// what Attach returned then, or, of an older release, at least the ids of the
// endpoint and the network. It is called before Run, and again with the rest.
func (a *Agent) Hold(at Attachment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held.claimed[at.Endpoint.ID] = struct{}{}
	a.held.attached[at.Endpoint.ID] = at
}

// recallHeld puts into the cache what attached containers need and the store
// does not have. It is called with the lock, before the first state is planned.
func (a *Agent) recallHeld() error {
	for id, at := range a.held.attached {
		n := at.Endpoint.NetID
		_, endpointKnown := a.cache.endpoints[id]
		if !endpointKnown {
			a.held.unreported = append(a.held.unreported, id)
		}
		a.cache.markAttachedBefore(id)
		if at.VRF == 0 {
			continue // attached by a release that did not write it down
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

// existing lists all endpoints of the first state. It is nil if the store lacks the endpoint of an attached container: it may
// have lost others, too. It is called with the lock, after recallHeld.
func (a *Agent) existing() []string {
	if len(a.missingInStore()) > 0 {
		return nil
	}
	return slices.AppendSeq([]string{}, maps.Keys(a.cache.endpoints))
}

// Unannounced lists the endpoints with an attached container that the store
// does not know. It is empty while the store cannot be read.
func (a *Agent) Unannounced() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.followsStore() {
		return nil
	}
	return a.missingInStore()
}

// missingInStore lists, sorted, the endpoints of attached containers that the store does not have. It is called with the lock.
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

// followsStore tells whether the cache is what a store that a netmaster has set
// up says now; it is called with the lock.
func (a *Agent) followsStore() bool {
	if _, unset := a.held.absent[mastercfg.GlobalConfigKey]; unset || a.missing() != nil {
		return false
	}
	return !slices.ContainsFunc(a.mirrors, func(m *follower) bool { return !m.Connected() })
}

// dropExpired deletes from the cache what nobody needs any more, and says how
// long until it is to be called again; 0: when something has changed.
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

// sooner is the earlier of two times; zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// expelClashing drops kept records whose numbers a store that went back has
// given to others: a container without a network does less harm than one in
// another tenant's. It is called with the lock.
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

// sameSegment tells whether two networks have a number that only one can have.
func sameSegment(a, b pipeline.Network) bool {
	return a.Encap == b.Encap && a.Tag != 0 && (a.Tag == b.Tag || a.VNI != 0 && a.VNI == b.VNI)
}

// sharesNumber finds a network with the VNI or tag, or a tenant with the VRF, of
// the record behind a key; stored says which records count. Empty: there is none.
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
