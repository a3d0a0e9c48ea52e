package agent

import "net/netip"

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
