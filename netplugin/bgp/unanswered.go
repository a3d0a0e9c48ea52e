package bgp

import (
	"net/netip"
	"time"
)

// neighbourAccepted is the library's message when a neighbour has accepted a connection, and has to send OPEN.
const neighbourAccepted = "outgoing connection established"

// answerTime is how long a neighbour may take to send OPEN until that is reported. The library waits for minutes and reports
// nothing; a kernel accepts connections for a process that hangs.
const answerTime = 10 * time.Second

// noteConnected records when a neighbour has accepted a connection.
func (s *Speaker) noteConnected(neighbour netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitingOpen[neighbour] = time.Now()
	s.wake.Send()
}

// reportUnanswered reports the neighbours that have not sent OPEN in time. It returns after how long to call it
// again; 0: no need.
func (s *Speaker) reportUnanswered(now time.Time) (next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for neighbour, since := range s.awaitingOpen {
		left := answerTime - now.Sub(since)
		if left <= 0 {
			s.connectFailed(neighbour, causeNoOpen)
			continue
		}
		if next == 0 || left < next {
			next = left
		}
	}
	return next
}
