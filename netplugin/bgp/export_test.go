package bgp

import (
	"math"
	"net/netip"
)

// AllChanges returns all changes at once.
func (s *Speaker) AllChanges() []Change {
	list, _ := s.Changes(math.MaxInt)
	return list
}

// NextHops returns the speaker's next hops of a prefix.
func (s *Speaker) NextHops(p netip.Prefix) []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.nextHops(p)
}

// Status returns the state of the session with a neighbour.
func (s *Speaker) Status(of netip.Addr) PeerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status[of]
}

// Established is the state of a session that works.
const Established = established
