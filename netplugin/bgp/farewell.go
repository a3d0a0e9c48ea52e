package bgp

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
)

// A server that ends sends each neighbour a NOTIFICATION and closes the connection. What the neighbour has said meanwhile, and nobody
// has read, makes that a reset, and then the neighbour may not read the NOTIFICATION any more: to it, we restart, and
// it keeps our routes for the restart time. So they are withdrawn before, and the end waits until
// neighbours are silent.
const (
	// farewellTime is how long it waits at most. Who speaks on has had that time to read what was withdrawn.
	farewellTime = time.Second
	// quietTime is how long a neighbour says nothing when it is silent.
	quietTime = 50 * time.Millisecond
)

// exchanged are counts of messages of a session: UPDATE messages that were sent, and all that were received.
type exchanged struct{ sent, received uint64 }

// withdraw tells all neighbours that we announce nothing any more.
func (s *Speaker) withdraw(now *session) {
	s.mu.Lock()
	ours := slices.Collect(maps.Keys(s.announced))
	s.mu.Unlock()
	first := now.exchanged()
	if len(ours) == 0 || len(first) == 0 {
		return
	}
	if err := now.announce(nil, ours); err != nil {
		s.log.WithError(err).Debug("routes are not withdrawn before the neighbours are left")
		return
	}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	late := time.After(farewellTime)
	for before := first; ; {
		select {
		case <-tick.C:
		case <-late:
			return
		}
		is, done := now.exchanged(), true
		for neighbour, e := range is {
			done = done && e.sent > first[neighbour].sent && e.received == before[neighbour].received
		}
		if done {
			return
		}
		before = is
	}
}

// exchanged counts what each neighbour has been sent and has sent, if there is a session with it.
func (n *session) exchanged() map[string]exchanged {
	all := map[string]exchanged{}
	_ = n.server.ListPeer(context.Background(), &api.ListPeerRequest{}, func(p *api.Peer) { // fails only if it has not started
		if state := p.GetState(); state.GetSessionState() == api.PeerState_SESSION_STATE_ESTABLISHED {
			all[state.GetNeighborAddress()] = exchanged{state.GetMessages().GetSent().GetUpdate(), state.GetMessages().GetReceived().GetTotal()}
		}
	})
	return all
}
