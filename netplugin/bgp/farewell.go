package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
)

// A session ends with a NOTIFICATION, after which the connection is closed. If the neighbour has sent something that was not
// read, the kernel resets the connection, and the neighbour may lose the NOTIFICATION: then it takes the end for a restart and
// keeps the node's routes for the restart time. So the routes are withdrawn first, and the end waits until the neighbour sends
// nothing any more.
const (
	// farewellTime is the longest wait. A neighbour that goes on sending has had that time to read the withdrawals.
	farewellTime = time.Second
	// quietTime is how long a neighbour must have sent nothing.
	quietTime = 50 * time.Millisecond
)

// exchanged are counts of messages of a session: UPDATE messages that were sent, and all that were received.
type exchanged struct{ sent, received uint64 }

// leave withdraws the node's routes from neighbours whose sessions end next, and waits as above. No routes are announced
// to them until stay is called.
func (n *session) leave(ctx context.Context, neighbours []netip.Addr) error {
	first := n.exchanged(neighbours)
	if len(first) == 0 {
		return nil
	}
	if err := n.server.SetPolicies(ctx, exports(neighbours)); err != nil {
		return fmt.Errorf("withdraw routes: %w", err)
	}
	for address := range first {
		if err := n.tellAgain(ctx, address); err != nil {
			return fmt.Errorf("withdraw routes from %s: %w", address, err)
		}
	}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	late := time.After(farewellTime)
	for before := first; ; {
		select {
		case <-tick.C:
		case <-late:
			return nil
		case <-ctx.Done():
			return nil
		}
		is, done := n.exchanged(neighbours), true
		for neighbour, e := range is {
			done = done && e.sent > first[neighbour].sent && e.received == before[neighbour].received
		}
		if done {
			return nil
		}
		before = is
	}
}

// stay ends leave: the routes are announced to all neighbours, also to those that were to be left and are still there.
func (n *session) stay(ctx context.Context, left []netip.Addr) error {
	if err := n.server.SetPolicies(ctx, exports(nil)); err != nil {
		return fmt.Errorf("announce routes to all BGP neighbours: %w", err)
	}
	for _, address := range left {
		if _, there := n.neighbours[address]; !there {
			continue
		}
		if err := n.tellAgain(ctx, address); err != nil {
			return fmt.Errorf("announce routes to %s: %w", address, err)
		}
	}
	return nil
}

// tellAgain announces to a neighbour the routes that the policies allow now, and withdraws the others (a soft reset).
func (n *session) tellAgain(ctx context.Context, neighbour netip.Addr) error {
	return n.server.ResetPeer(ctx, &api.ResetPeerRequest{Address: neighbour.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_OUT})
}

// exchanged returns the message counts of those neighbours that have a session.
func (n *session) exchanged(of []netip.Addr) map[netip.Addr]exchanged {
	all := map[netip.Addr]exchanged{}
	_ = n.server.ListPeer(context.Background(), &api.ListPeerRequest{}, func(p *api.Peer) { // fails only if it has not started
		state := p.GetState()
		address, err := netip.ParseAddr(state.GetNeighborAddress())
		if err == nil && slices.Contains(of, address) && state.GetSessionState() == api.PeerState_SESSION_STATE_ESTABLISHED {
			all[address] = exchanged{state.GetMessages().GetSent().GetUpdate(), state.GetMessages().GetReceived().GetTotal()}
		}
	})
	return all
}
