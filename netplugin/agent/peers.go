package agent

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sirupsen/logrus"
)

// peers knows the VTEP of each host from the registry.
//
// A registry entry that vanishes means that a host's agent is gone, not that
// its switch stopped forwarding: agents are restarted, hosts rarely. So the
// last known VTEP of a host is held as long as endpoints live there.
//
// Of live entries that name one host with different VTEPs, or one VTEP for
// different hosts, the oldest counts and the others are refused: whoever starts
// a second agent with the name of a host does not get the traffic of the first
// as long as that is registered. A host whose address has changed is reached
// there once its former entry has run out, which takes the TTL of
// registrations. The second agent looks the same from then on: it counts if
// the first was away for that long, and the first, whose entry is new when it
// is back, is refused.
type peers struct {
	entries map[string]peer       // live registry entries by key
	byHost  index                 // host -> keys of its live entries
	byVTEP  index                 // VTEP -> keys of the live entries that name it
	vtep    map[string]netip.Addr // host -> VTEP in force, live or held
	refused map[string]string     // keys of live entries that do not count -> why
	newest  int64                 // largest since
}

// peer is one live registry entry.
type peer struct {
	host  string
	vtep  netip.Addr
	since int64 // revision at which it began to say this, as far as is known
}

func newPeers() peers {
	return peers{entries: make(map[string]peer), byHost: make(index), byVTEP: make(index), vtep: make(map[string]netip.Addr), refused: make(map[string]string)}
}

// set stores or replaces a live entry and returns the hosts to settle.
func (p *peers) set(key string, entry peer) []string {
	old, known := p.entries[key]
	switch {
	case known && old.host == entry.host && old.vtep == entry.vtep:
		return nil
	case known: // the key is as old as it was, but what it says is new
		entry.since = max(entry.since, p.newest+1)
	}
	p.newest = max(p.newest, entry.since)
	hosts := p.remove(key)
	p.entries[key] = entry
	p.byHost.add(entry.host, key)
	p.byVTEP.add(entry.vtep.String(), key)
	return append(hosts, p.related(entry)...)
}

// storeRewound is called when the store was restored to an older revision, or replaced: revisions of before cannot be compared
// with new ones. All present entries count as older than later ones.
func (p *peers) storeRewound() {
	for key, entry := range p.entries {
		entry.since -= p.newest
		p.entries[key] = entry
	}
	p.newest = 0
}

// made tells when the key of a live entry was made, and returns the hosts to settle.
func (p *peers) made(key string, revision int64) []string {
	entry, known := p.entries[key]
	if !known || entry.since <= revision {
		return nil
	}
	entry.since = revision
	p.entries[key] = entry
	return p.related(entry)
}

// remove removes an entry and returns the hosts to settle.
func (p *peers) remove(key string) []string {
	old, known := p.entries[key]
	if !known {
		return nil
	}
	hosts := p.related(old)
	delete(p.entries, key)
	delete(p.refused, key)
	p.byHost.remove(old.host, key)
	p.byVTEP.remove(old.vtep.String(), key)
	return hosts
}

// related returns the hosts that an entry affects: its own, those with the same VTEP, and transitively further ones.
func (p *peers) related(entry peer) []string {
	hosts, seen := []string{entry.host}, map[string]bool{entry.host: true}
	for next := 0; next < len(hosts); next++ {
		for key := range p.byHost[hosts[next]] {
			for other := range p.byVTEP[p.entries[key].vtep.String()] {
				if host := p.entries[other].host; !seen[host] {
					seen[host] = true
					hosts = append(hosts, host)
				}
			}
		}
	}
	return hosts
}

// refusals says of a host's live entries why they do not count; empty: they do. The
// oldest of all that may contradict each other counts, and what contradicts none that counts.
func (p *peers) refusals(host string) map[string]string {
	var keys []string
	for _, h := range p.related(peer{host: host}) {
		keys = slices.AppendSeq(keys, maps.Keys(p.byHost[h]))
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.entries[a].since, p.entries[b].since), cmp.Compare(a, b))
	})
	why, at, of := make(map[string]string), make(map[string]netip.Addr), make(map[netip.Addr]string)
	for _, key := range keys {
		entry, cause := p.entries[key], ""
		if vtep, taken := at[entry.host]; taken && vtep != entry.vtep {
			cause = fmt.Sprintf("host %s is at %s, a later registration says %s", entry.host, vtep, entry.vtep)
		} else if first, taken := of[entry.vtep]; taken && first != entry.host {
			cause = fmt.Sprintf("address %s is that of host %s, a later registration says %s", entry.vtep, first, entry.host)
		} else {
			at[entry.host], of[entry.vtep] = entry.vtep, entry.host
		}
		if entry.host == host {
			why[key] = cause
		}
	}
	return why
}

// settle brings a host's VTEP in force in line with its live entries; inUse
// says whether endpoints live there. It tells whether the VTEP changed, and
// which entries have been refused by this.
func (p *peers) settle(host string, inUse bool) (changed bool, refused []string) {
	before, counts := p.vtep[host], false
	for key, why := range p.refusals(host) {
		switch {
		case why == "":
			delete(p.refused, key)
			p.vtep[host], counts = p.entries[key].vtep, true // all that count name the same
		case p.refused[key] != why:
			p.refused[key] = why
			refused = append(refused, key)
		}
	}
	if !counts && !inUse {
		delete(p.vtep, host)
	}
	return p.vtep[host] != before, refused
}

// addresses are the VTEPs in force.
func (p *peers) addresses() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(p.vtep))
	for _, vtep := range p.vtep {
		all[vtep] = true
	}
	return all
}

// recall gives a host without a known VTEP the one it had before this agent started.
func (p *peers) recall(host string, vtep netip.Addr) bool {
	if p.vtep[host].IsValid() || !vtep.IsValid() {
		return false
	}
	p.vtep[host] = vtep
	return true
}

func (c *cache) putPeer(key string, value []byte, revision int64) error {
	host, vtep, err := decodePeer(value)
	if err != nil {
		return err
	}
	c.setNode(peerPrefix+key, vtep)
	c.settle(c.peers.set(key, peer{host, vtep, revision})...)
	return nil
}

func (c *cache) removePeer(key string) {
	c.vanish(peerPrefix + key)
	c.settle(c.peers.remove(key)...)
}

// hasDuplicateLabel tells whether another node is registered with this one's label, or this one's
// registration is refused.
func (c *cache) hasDuplicateLabel() bool {
	for key := range c.peers.byHost[c.host] {
		if c.peers.entries[key].vtep != c.vtep || c.peers.refused[key] != "" {
			return true
		}
	}
	return false
}

// recallPeer supplies a VTEP remembered from before this agent started.
func (c *cache) recallPeer(host string, vtep netip.Addr) {
	c.setNode(recalled+vtep.String(), vtep)
	c.vanish(recalled + vtep.String()) // unless the registry has it
	if len(c.endpointsOn[host]) > 0 && c.peers.recall(host, vtep) {
		c.setPeer(vtep)
		c.markHost(host)
	}
}

// settle brings the VTEPs of these hosts in line with their registrations. What has
// been refused is forgotten only when all are settled: before, a host of those that
// follow may still be at an address that it gives up by the same change.
func (c *cache) settle(hosts ...string) {
	var refused []string
	for _, host := range hosts {
		changed, newly := c.peers.settle(host, len(c.endpointsOn[host]) > 0)
		if changed {
			c.markHost(host)
		}
		if vtep := c.peers.vtep[host]; vtep.IsValid() && host != c.host {
			c.setPeer(vtep)
		}
		refused = append(refused, newly...)
	}
	for _, key := range refused {
		c.log.WithFields(logrus.Fields{"key": peerPrefix + key, "cause": c.peers.refused[key]}).Error("registration of a node refused: it claims what another one has")
		c.unsetPeer(c.peers.entries[key].vtep)
	}
}
