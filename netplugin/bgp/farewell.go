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
// it keeps our routes for the restart time. So they are withdrawn before.
const (
	// withdrawTime is how long neighbours may take to be sent that.
	withdrawTime = time.Second
	// readTime is how long they have to read it, before their connections may be reset.
	readTime = 200 * time.Millisecond
	sentPoll = 10 * time.Millisecond
)

// withdraw tells all neighbours that we announce nothing any more.
func (s *Speaker) withdraw(now *session) {
	s.mu.Lock()
	ours := slices.Collect(maps.Keys(s.announced))
	s.mu.Unlock()
	before := now.updatesSent()
	if len(ours) == 0 || len(before) == 0 {
		return
	}
	if err := now.announce(nil, ours); err != nil {
		s.log.WithError(err).Debug("routes are not withdrawn before the neighbours are left")
		return
	}
	tick := time.NewTicker(sentPoll)
	defer tick.Stop()
	for late := time.After(withdrawTime); len(before) > 0; {
		select {
		case <-tick.C:
		case <-late:
			return
		}
		sent := now.updatesSent()
		maps.DeleteFunc(before, func(neighbour string, count uint64) bool {
			after, there := sent[neighbour]
			return !there || after > count
		})
	}
	time.Sleep(readTime)
}

// updatesSent counts the UPDATE messages that were sent to each neighbour there is a session with.
func (n *session) updatesSent() map[string]uint64 {
	sent := map[string]uint64{}
	_ = n.server.ListPeer(context.Background(), &api.ListPeerRequest{}, func(p *api.Peer) { // fails only if it has not started
		if p.GetState().GetSessionState() == api.PeerState_SESSION_STATE_ESTABLISHED {
			sent[p.GetState().GetNeighborAddress()] = p.GetState().GetMessages().GetSent().GetUpdate()
		}
	})
	return sent
}
