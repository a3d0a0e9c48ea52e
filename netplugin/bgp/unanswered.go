package bgp

import (
	"net/netip"
	"time"
)

// connected is what the library says when a neighbour has accepted a connection, and is to introduce itself.
const connected = "outgoing connection established"

// answerTime is how long a neighbour may take to introduce itself until we say that it does not: the library waits for minutes, and
// says nothing meanwhile. A kernel accepts connections for a process that hangs.
const answerTime = 10 * time.Second

// noteConnected begins the time for an answer.
func (s *Speaker) noteConnected(neighbour netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[neighbour] = time.Now()
	s.wake.Send()
}

// noteUnanswered says of neighbours that they have not answered in time, and when to look again; 0: there is nobody to wait for.
func (s *Speaker) noteUnanswered(now time.Time) (next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for neighbour, since := range s.asked {
		left := answerTime - now.Sub(since)
		if left <= 0 {
			s.isNotReached(neighbour, unanswered)
			continue
		}
		if next == 0 || left < next {
			next = left
		}
	}
	return next
}
