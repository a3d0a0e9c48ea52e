package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
)

// Who leaves a neighbour sends it a NOTIFICATION and closes the connection. What the neighbour has said meanwhile, and nobody
// has read, makes that a reset, and then the neighbour may not read the NOTIFICATION any more: to it, we restart, and
// it keeps our routes for the restart time. So they are withdrawn before, and the end waits until
// the neighbours that are left are silent.
const (
	// farewellTime is how long it waits at most. Who speaks on has had that time to read what was withdrawn.
	farewellTime = time.Second
	// quietTime is how long a neighbour says nothing when it is silent.
	quietTime = 50 * time.Millisecond
)

// exchanged are counts of messages of a session: UPDATE messages that were sent, and all that were received.
type exchanged struct{ sent, received uint64 }

// leave withdraws our routes from neighbours with which the session ends next. Until they are removed and stay is
// called, they are told none.
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

// stay ends what leave began: all neighbours are told our routes, also those that were to be left and are still there.
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

// tellAgain tells a neighbour what it is to be told now, and withdraws the rest.
func (n *session) tellAgain(ctx context.Context, neighbour netip.Addr) error {
	return n.server.ResetPeer(ctx, &api.ResetPeerRequest{Address: neighbour.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_OUT})
}

// exchanged counts what neighbours have been sent and have sent, if there is a session with them.
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
