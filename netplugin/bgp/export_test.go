package bgp

import (
	"math"
	"net/netip"
)

// AllChanges takes them at once.
func (s *Speaker) AllChanges() []Change {
	list, _ := s.Changes(math.MaxInt)
	return list
}

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
