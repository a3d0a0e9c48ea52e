package bgp

import "net/netip"

// NextHops tells what the speaker has of a prefix.
func (s *Speaker) NextHops(p netip.Prefix) []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.nextHops(p)
}

// Status tells how it stands with a neighbour.
func (s *Speaker) Status(of netip.Addr) PeerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status[of]
}

// Established is the state of a session that works.
const Established = established
