package bgp

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	"github.com/sirupsen/logrus"
)

// callbacks process the events of a session's server, one after the other.
func (s *Speaker) callbacks(from *session) server.WatchEventMessageCallbacks {
	process := func(event func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current == from {
			event()
			s.news.Send()
		}
	}
	return server.WatchEventMessageCallbacks{
		OnBestPath: func(paths []*apiutil.Path, then time.Time) {
			process(func() { s.learn(paths) })
			from.pace.processed(paths, then)
		},
		OnPathEor:    func(end *apiutil.Path, _ time.Time) { process(func() { s.endOfRIB(end.PeerAddress, end.Family) }) },
		OnPeerUpdate: func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) { process(func() { s.peerChanged(e) }) },
	}
}

// learn processes paths that have become one of the best of their prefix, or ceased to be.
func (s *Speaker) learn(paths []*apiutil.Path) {
	for _, p := range paths {
		prefix, ok := prefixOf(p)
		if !ok || !p.PeerAddress.IsValid() || p.PeerAddress.IsUnspecified() {
			continue // announced by this node
		}
		if _, closed := s.closed[p.PeerAddress]; closed {
			continue // the library may still report its paths for a while
		}
		next := nextHopOf(p)
		if p.Withdrawal || !next.IsValid() {
			s.table.unset(prefix, p.PeerAddress)
		} else {
			s.table.set(Route{prefix, p.PeerAddress, next})
		}
	}
	for by, routes := range s.table.counts {
		if routes > int(s.cfg.MaxRoutes) {
			s.closeOverLimit(by.neighbour)
		}
	}
}

func prefixOf(p *apiutil.Path) (netip.Prefix, bool) {
	nlri, ok := p.Nlri.(*bgp.IPAddrPrefix)
	if !ok {
		return netip.Prefix{}, false
	}
	return nlri.Prefix.Masked(), true
}

// nextHopOf returns the next hop of a path; an IPv4-mapped address is returned as IPv4. If the neighbour sends an
// unspecified global next hop with its link-local one, the library drops the latter; then the next hop is the
// neighbour.
func nextHopOf(p *apiutil.Path) (next netip.Addr) {
	for _, a := range p.Attrs {
		switch a := a.(type) {
		case *bgp.PathAttributeNextHop:
			next = a.Value
		case *bgp.PathAttributeMpReachNLRI:
			next = a.Nexthop
		}
	}
	if next.IsUnspecified() {
		return p.PeerAddress
	}
	return next.Unmap()
}

// endOfRIB removes the stale routes of a neighbour that has sent End-of-RIB for a family.
func (s *Speaker) endOfRIB(neighbour netip.Addr, family bgp.Family) {
	s.table.drop(func(prefix netip.Prefix, h hop) bool {
		return h.stale && h.neighbour == neighbour && prefix.Addr().Is4() == (family == bgp.RF_IPv4_UC)
	})
}

// PeerStatus is the state of a neighbour.
type PeerStatus struct {
	AdminState   string // up, down, or pfx_ct: it has announced too many routes
	SessionState string // idle, connect, active, opensent, openconfirm or established
	LastError    string // why the last session ended
}

var sessionStates = map[bgp.FSMState]string{
	bgp.BGP_FSM_IDLE: "idle", bgp.BGP_FSM_CONNECT: "connect", bgp.BGP_FSM_ACTIVE: "active",
	bgp.BGP_FSM_OPENSENT: "opensent", bgp.BGP_FSM_OPENCONFIRM: "openconfirm", bgp.BGP_FSM_ESTABLISHED: established,
}

var adminStates = map[api.PeerState_AdminState]string{
	api.PeerState_ADMIN_STATE_UP: "up", api.PeerState_ADMIN_STATE_DOWN: "down", api.PeerState_ADMIN_STATE_PFX_CT: "pfx_ct",
}

const established = "established"

// closure is the time until which a neighbour gets no session, and the reason.
type closure struct {
	until  time.Time
	status PeerStatus
}

// closeNeighbour removes a neighbour's routes, and makes the loop of Run end its session for span; it returns
// false if it is already closed. The caller holds the lock.
func (s *Speaker) closeNeighbour(neighbour netip.Addr, span time.Duration, status PeerStatus) (fresh bool) {
	if _, already := s.closed[neighbour]; already {
		return false
	}
	s.closed[neighbour] = closure{time.Now().Add(span), status}
	s.table.drop(func(_ netip.Prefix, h hop) bool { return h.neighbour == neighbour })
	s.news.Send()
	s.wake.Send()
	return true
}

// reopenNeighbour ends a closure, if there is one. Its reason remains the last error until there is a session or
// another error. The caller holds the lock.
func (s *Speaker) reopenNeighbour(neighbour netip.Addr) {
	c, closed := s.closed[neighbour]
	if !closed {
		return
	}
	delete(s.closed, neighbour)
	s.status[neighbour] = PeerStatus{adminStates[api.PeerState_ADMIN_STATE_UP], sessionStates[bgp.BGP_FSM_IDLE], c.status.LastError}
}

// closeOverLimit closes a neighbour that exceeds the limit of routes. The caller holds the lock.
func (s *Speaker) closeOverLimit(neighbour netip.Addr) {
	why := fmt.Sprintf("more than %d routes: closed until %s", s.cfg.MaxRoutes, time.Now().Add(s.cfg.ClosedTime).Format(time.DateTime))
	if s.closeNeighbour(neighbour, s.cfg.ClosedTime, PeerStatus{adminStates[api.PeerState_ADMIN_STATE_PFX_CT], sessionStates[bgp.BGP_FSM_IDLE], why}) {
		s.log.WithField("neighbour", neighbour).WithField("limit", s.cfg.MaxRoutes).
			Errorf("BGP neighbour announces more routes than the limit: closed for %s", s.cfg.ClosedTime)
	}
}

// silencePause is how long a neighbour is closed after the hold time has expired. Then it is added again.
const silencePause = time.Second

// holdTimerExpired closes a neighbour when the hold time has expired, and so removes its routes. The library would
// retain them for the restart time. But there is no sign of a restart, which closes the connection: the neighbour
// may be dead, or cut off together with the next hops of its routes (RFC 8538, 4.1). The caller holds the lock.
func (s *Speaker) holdTimerExpired(neighbour netip.Addr) {
	if s.status[neighbour].SessionState != established {
		return
	}
	if s.closeNeighbour(neighbour, silencePause, PeerStatus{adminStates[api.PeerState_ADMIN_STATE_UP], sessionStates[bgp.BGP_FSM_IDLE], causeHoldTimerExpired}) {
		log := s.log.WithField("neighbour", neighbour)
		s.sessionEnds(neighbour, causeHoldTimerExpired)
		log.Log(s.levelOf(neighbour, log, logrus.WarnLevel), "BGP neighbour is silent for the hold time: its routes go")
	}
}

// peerChanged records the state of a neighbour, and logs when its session begins, ends, or fails
// for another reason than before.
func (s *Speaker) peerChanged(e *apiutil.WatchEventMessage_PeerEvent) {
	if e.Type != apiutil.PEER_EVENT_STATE && e.Type != apiutil.PEER_EVENT_INIT {
		return
	}
	state, address := e.Peer.State, e.Peer.State.NeighborAddress
	before := s.status[address]
	now := PeerStatus{AdminState: adminStates[state.AdminState], SessionState: sessionStates[state.SessionState], LastError: before.LastError}
	if cause := causeOf(before.SessionState, &state); before.SessionState == established && cause != "" || isNewCause(cause, before.LastError) {
		now.LastError = cause
	}
	switch state.SessionState {
	case bgp.BGP_FSM_OPENCONFIRM:
		delete(s.awaitingOpen, address)
	case bgp.BGP_FSM_ESTABLISHED:
		delete(s.awaitingOpen, address)
		now.LastError = ""
	}
	log := s.log.WithFields(logrus.Fields{"neighbour": address, "as": state.PeerASN})
	if state.AdminState == api.PeerState_ADMIN_STATE_PFX_CT {
		s.closeOverLimit(address)
	}
	s.status[address] = now
	switch {
	case now.SessionState == established && before.SessionState != established:
		log.Log(s.levelOf(address, log, logrus.InfoLevel), "BGP neighbour is there")
	case now.SessionState != established && before.SessionState == established:
		if _, closed := s.closed[address]; !closed { // for a closed one the caller of closeNeighbour has recorded it
			s.sessionEnds(address, now.LastError)
		}
		log.WithField("cause", now.LastError).Log(s.levelOf(address, log, logrus.WarnLevel), "BGP neighbour is gone")
	case now.LastError != before.LastError:
		log.WithField("cause", now.LastError).Log(s.levelOf(address, log, logrus.WarnLevel), "BGP neighbour is not reached")
	}
}
