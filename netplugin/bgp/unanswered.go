package bgp

import (
	"net/netip"
	"time"
)

// connected is the library's message when a neighbour has accepted a connection, and is to send OPEN.
const connected = "outgoing connection established"

// answerTime is how long a neighbour may take to send OPEN until that is reported. The library waits for minutes and reports
// nothing; a kernel accepts connections for a process that hangs.
const answerTime = 10 * time.Second

// noteConnected notes when a neighbour has accepted a connection.
func (s *Speaker) noteConnected(neighbour netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[neighbour] = time.Now()
	s.wake.Send()
}

// noteUnanswered reports the neighbours that have not sent OPEN in time. It returns after how long to call it again; 0: no need.
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
