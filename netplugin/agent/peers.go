package agent

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sirupsen/logrus"
)

// peers has the VTEP of each host from the registry.
//
// When a registry entry is removed, the host's agent has ended, but its switch may still forward: agents are
// restarted often, hosts rarely. So the last known VTEP of a host is held as long as the host has endpoints.
//
// If live entries give one host different VTEPs, or different hosts one VTEP, the oldest entry counts and the
// others are refused: a second agent with the name of a host does not receive the traffic of the first as long
// as that is registered. A host whose address has changed is reachable there once its former entry has expired,
// after the TTL of registrations. From then on a second agent cannot be told from it: it counts if the first
// was away for that long, and the first, whose entry is newer when it returns, is refused.
type peers struct {
	entries map[string]peer       // live registry entries by key
	byHost  index                 // host -> keys of its live entries
	byVTEP  index                 // VTEP -> keys of the live entries that name it
	vtep    map[string]netip.Addr // host -> VTEP in use, live or held
	refused map[string]string     // keys of refused live entries -> why
	newest  int64                 // largest since
}

// peer is one live registry entry.
type peer struct {
	host  string
	vtep  netip.Addr
	since int64 // store revision of its present content, as far as known
}

func newPeers() peers {
	return peers{
		entries: make(map[string]peer), byHost: make(index), byVTEP: make(index), vtep: make(map[string]netip.Addr),
		refused: make(map[string]string),
	}
}

// set stores or replaces a live entry and returns the hosts to settle.
func (p *peers) set(key string, entry peer) []string {
	old, known := p.entries[key]
	switch {
	case known && old.host == entry.host && old.vtep == entry.vtep:
		return nil
	case known: // an old key with new content counts as a new entry
		entry.since = max(entry.since, p.newest+1)
	}
	p.newest = max(p.newest, entry.since)
	hosts := p.remove(key)
	p.entries[key] = entry
	p.byHost.add(entry.host, key)
	p.byVTEP.add(entry.vtep.String(), key)
	return append(hosts, p.related(entry)...)
}

// storeRewound is called when the store was restored to an older revision, or replaced: older revisions cannot
// be compared with new ones. All present entries count as older than later ones.
func (p *peers) storeRewound() {
	for key, entry := range p.entries {
		entry.since -= p.newest
		p.entries[key] = entry
	}
	p.newest = 0
}

// made sets the revision at which the key of a live entry was created, and returns the hosts to settle.
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

// refusals returns why each live entry of a host is refused; empty: it counts. Of all entries that may
// contradict each other, in order of age, an entry counts if it contradicts no older one that counts.
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

// settle updates the host's VTEP in use from its live entries; inUse reports whether the host has endpoints. It
// returns whether the VTEP changed, and the newly refused entries.
func (p *peers) settle(host string, inUse bool) (changed bool, refused []string) {
	before, counts := p.vtep[host], false
	for key, why := range p.refusals(host) {
		switch {
		case why == "":
			delete(p.refused, key)
			p.vtep[host], counts = p.entries[key].vtep, true // all entries that count have the same VTEP
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

// addresses returns the VTEPs in use.
func (p *peers) addresses() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(p.vtep))
	for _, vtep := range p.vtep {
		all[vtep] = true
	}
	return all
}

// recall sets the VTEP that a host had before this agent started, unless it has one.
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

// hasDuplicateLabel reports whether another node is registered with
// this node's label, or this node's registration is refused.
func (c *cache) hasDuplicateLabel() bool {
	for key := range c.peers.byHost[c.host] {
		if c.peers.entries[key].vtep != c.vtep || c.peers.refused[key] != "" {
			return true
		}
	}
	return false
}

// recallPeer sets the VTEP that a host had before this agent started.
func (c *cache) recallPeer(host string, vtep netip.Addr) {
	c.setNode(recalled+vtep.String(), vtep)
	c.vanish(recalled + vtep.String()) // unless the registry has it
	if len(c.endpointsOn[host]) > 0 && c.peers.recall(host, vtep) {
		c.setPeer(vtep)
		c.markHost(host)
	}
}

// settle updates the VTEPs of these hosts from their registrations. Refused addresses are removed only after all hosts
// are settled: until then, a later host in the list may still have an address that it loses by the same change.
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

// Tunnels returns the tunnel addresses of the other nodes, by host.
func (a *Agent) Tunnels() map[string]netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	others := make(map[string]netip.Addr, len(a.cache.peers.vtep))
	for host, vtep := range a.cache.peers.vtep {
		if host != a.cfg.HostLabel && vtep.Is4() == a.cfg.VTEP.Is4() {
			others[host] = vtep
		}
	}
	return others
}
