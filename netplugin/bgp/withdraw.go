package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
)

// A session ends with a NOTIFICATION, after which the connection is closed. If the neighbour has sent data that
// was not read, the kernel resets the connection, and the neighbour may lose the NOTIFICATION: then it treats the
// end as a restart and retains the node's routes for the restart time. So the routes are withdrawn first, and the
// end waits until the neighbour sends nothing any more.
const (
	// withdrawTime is the longest wait. A neighbour that continues to send has had that time to read the withdrawals.
	withdrawTime = time.Second
	// quietTime is how long nothing must have been received from a neighbour.
	quietTime = 50 * time.Millisecond
)

// messageCounts are counts of messages of a session: UPDATE messages that were sent, and all that were received.
type messageCounts struct{ sent, received uint64 }

// withdrawFrom withdraws the node's routes from neighbours whose sessions end next, and waits as above. No routes
// are announced to them until announceAgain is called.
func (n *session) withdrawFrom(ctx context.Context, neighbours []netip.Addr) error {
	first := n.countMessages(neighbours)
	if len(first) == 0 {
		return nil
	}
	if err := n.server.SetPolicies(ctx, exports(neighbours)); err != nil {
		return fmt.Errorf("withdraw routes: %w", err)
	}
	for address := range first {
		if err := n.softResetOut(ctx, address); err != nil {
			return fmt.Errorf("withdraw routes from %s: %w", address, err)
		}
	}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	late := time.After(withdrawTime)
	for before := first; ; {
		select {
		case <-tick.C:
		case <-late:
			return nil
		case <-ctx.Done():
			return nil
		}
		is, done := n.countMessages(neighbours), true
		for neighbour, e := range is {
			done = done && e.sent > first[neighbour].sent && e.received == before[neighbour].received
		}
		if done {
			return nil
		}
		before = is
	}
}

// announceAgain ends withdrawFrom: the routes are announced to all neighbours, also to those of withdrawFrom that
// are still configured.
func (n *session) announceAgain(ctx context.Context, left []netip.Addr) error {
	if err := n.server.SetPolicies(ctx, exports(nil)); err != nil {
		return fmt.Errorf("announce routes to all BGP neighbours: %w", err)
	}
	for _, address := range left {
		if _, there := n.neighbours[address]; !there {
			continue
		}
		if err := n.softResetOut(ctx, address); err != nil {
			return fmt.Errorf("announce routes to %s: %w", address, err)
		}
	}
	return nil
}

// softResetOut announces to a neighbour the routes that the policies allow now, and withdraws the others (a soft reset).
func (n *session) softResetOut(ctx context.Context, neighbour netip.Addr) error {
	return n.server.ResetPeer(ctx, &api.ResetPeerRequest{Address: neighbour.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_OUT})
}

// countMessages returns the message counts of those neighbours that have a session.
func (n *session) countMessages(of []netip.Addr) map[netip.Addr]messageCounts {
	all := map[netip.Addr]messageCounts{}
	_ = n.server.ListPeer(context.Background(), &api.ListPeerRequest{}, func(p *api.Peer) { // fails only if it has not started
		state := p.GetState()
		address, err := netip.ParseAddr(state.GetNeighborAddress())
		if err == nil && slices.Contains(of, address) && state.GetSessionState() == api.PeerState_SESSION_STATE_ESTABLISHED {
			all[address] = messageCounts{state.GetMessages().GetSent().GetUpdate(), state.GetMessages().GetReceived().GetTotal()}
		}
	})
	return all
}
