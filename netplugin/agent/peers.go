package agent

import "net/netip"

// peers knows the VTEP of each host from the registry.
//
// A registry entry that vanishes means that a host's agent is gone, not that
// its switch stopped forwarding: agents are restarted, hosts rarely. So the
// last known VTEP of a host is held as long as endpoints live there.
type peers struct {
	entries map[string]peer       // live registry entries by key
	byHost  index                 // host -> keys of its live entries
	vtep    map[string]netip.Addr // host -> VTEP in force, live or held
}

// peer is one live registry entry.
type peer struct {
	host     string
	vtep     netip.Addr
	revision int64 // of its last write; of two entries of a host the younger counts
}

func newPeers() peers {
	return peers{entries: make(map[string]peer), byHost: make(index), vtep: make(map[string]netip.Addr)}
}

// set stores or replaces a live entry and returns the hosts to settle.
func (p *peers) set(key string, entry peer) []string {
	hosts := append(p.unset(key), entry.host)
	p.entries[key] = entry
	p.byHost.add(entry.host, key)
	return hosts
}

// unset removes an entry and returns the hosts to settle.
func (p *peers) unset(key string) []string {
	old, known := p.entries[key]
	if !known {
		return nil
	}
	delete(p.entries, key)
	p.byHost.remove(old.host, key)
	return []string{old.host}
}

// settle brings a host's VTEP in force in line with its live entries; inUse
// says whether endpoints live there. It tells whether the VTEP changed.
func (p *peers) settle(host string, inUse bool) bool {
	before := p.vtep[host]
	var best peer
	for key := range p.byHost[host] {
		if entry := p.entries[key]; entry.revision > best.revision {
			best = entry
		}
	}
	switch {
	case best.vtep.IsValid():
		p.vtep[host] = best.vtep
	case !inUse:
		delete(p.vtep, host)
	}
	return p.vtep[host] != before
}

// addresses are the VTEPs that are registered, or in force.
func (p *peers) addresses() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(p.vtep))
	for _, vtep := range p.vtep {
		all[vtep] = true
	}
	for _, entry := range p.entries {
		all[entry.vtep] = true
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
