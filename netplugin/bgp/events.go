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

// callbacks take in what the server of a session learns, one after the other.
func (s *Speaker) callbacks(from *session) server.WatchEventMessageCallbacks {
	hear := func(what func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current == from {
			what()
			s.news.Send()
		}
	}
	return server.WatchEventMessageCallbacks{
		OnBestPath: func(paths []*apiutil.Path, then time.Time) {
			hear(func() { s.learn(paths) })
			from.pace.take(paths, then)
		},
		OnPathEor:    func(end *apiutil.Path, _ time.Time) { hear(func() { s.toldAll(end.PeerAddress, end.Family) }) },
		OnPeerUpdate: func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) { hear(func() { s.peerChanged(e) }) },
	}
}

// learn takes in paths that are among the best of their prefix, or not any more.
func (s *Speaker) learn(paths []*apiutil.Path) {
	for _, p := range paths {
		prefix, ok := prefixOf(p)
		if !ok || !p.PeerAddress.IsValid() || p.PeerAddress.IsUnspecified() {
			continue // ours
		}
		if _, closed := s.closed[p.PeerAddress]; closed {
			continue // the library is long in forgetting what it has heard
		}
		next := nextHopOf(p)
		if p.Withdrawal || !next.IsValid() {
			s.table.unset(prefix, p.PeerAddress)
		} else {
			s.table.set(Route{prefix, p.PeerAddress, next}, false)
		}
	}
	for by, routes := range s.table.counts {
		if routes > int(s.cfg.MaxRoutes) {
			s.saysTooMuch(by.neighbour)
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

// nextHopOf is the address to send to: an IPv4 one may stand for a router of IPv6
// that has no such address of its own. The library loses the link-local address that
// comes beside an unspecified one; then it is the neighbour itself that is meant.
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

// toldAll drops what a neighbour said in an earlier run and has not said again.
func (s *Speaker) toldAll(neighbour netip.Addr, family bgp.Family) {
	s.table.drop(func(prefix netip.Prefix, h hop) bool {
		return h.stale && h.neighbour == neighbour && prefix.Addr().Is4() == (family == bgp.RF_IPv4_UC)
	})
}

// PeerStatus is how it stands with a neighbour.
type PeerStatus struct {
	AdminState   string // up, down, or pfx_ct: it has announced too much
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

// closure is why nobody speaks with a neighbour for a while.
type closure struct {
	until  time.Time
	status PeerStatus
}

// close hears a neighbour no longer, and forgets what it has said. It is called with the lock.
func (s *Speaker) close(neighbour netip.Addr, span time.Duration, status PeerStatus) (fresh bool) {
	if _, already := s.closed[neighbour]; already {
		return false
	}
	s.closed[neighbour] = closure{time.Now().Add(span), status}
	s.table.drop(func(_ netip.Prefix, h hop) bool { return h.neighbour == neighbour })
	s.news.Send()
	s.wake.Send()
	return true
}

// reopen ends a closure, if there is one. Why it was is told until there is a session, or something else is wrong. It
// is called with the lock.
func (s *Speaker) reopen(neighbour netip.Addr) {
	c, closed := s.closed[neighbour]
	if !closed {
		return
	}
	delete(s.closed, neighbour)
	s.status[neighbour] = PeerStatus{adminStates[api.PeerState_ADMIN_STATE_UP], sessionStates[bgp.BGP_FSM_IDLE], c.status.LastError}
}

// saysTooMuch closes a neighbour with too many routes. It is called with the lock.
func (s *Speaker) saysTooMuch(neighbour netip.Addr) {
	why := fmt.Sprintf("more than %d routes: closed until %s", s.cfg.MaxRoutes, time.Now().Add(s.cfg.ClosedTime).Format(time.DateTime))
	if s.close(neighbour, s.cfg.ClosedTime, PeerStatus{adminStates[api.PeerState_ADMIN_STATE_PFX_CT], sessionStates[bgp.BGP_FSM_IDLE], why}) {
		s.log.WithField("neighbour", neighbour).WithField("limit", s.cfg.MaxRoutes).
			Errorf("BGP neighbour announces more routes than the limit: closed for %s", s.cfg.ClosedTime)
	}
}

// silencePause is how long a neighbour is left alone that has said nothing for the hold time. It is met as a new one then.
const silencePause = time.Second

// saysNothing takes leave of a neighbour that has said nothing for the hold time. The library would keep its routes for as long as
// it may take to restart. But it has not said that it restarts, nor has its connection ended, as that of a process that does: it
// may be dead, or cut off, with whom its routes lead to (RFC 8538, 4.1). It is called with the lock.
func (s *Speaker) saysNothing(neighbour netip.Addr) {
	if s.status[neighbour].SessionState != established {
		return
	}
	if s.close(neighbour, silencePause, PeerStatus{adminStates[api.PeerState_ADMIN_STATE_UP], sessionStates[bgp.BGP_FSM_IDLE], saidNothing}) {
		log := s.log.WithField("neighbour", neighbour)
		s.sessionEnds(neighbour, saidNothing)
		log.Log(s.levelOf(neighbour, log, logrus.WarnLevel), "BGP neighbour is silent for the hold time: its routes go")
	}
}

// peerChanged keeps the state of a neighbour, and says in the log what an operator
// wants to know: that it is there, that it has gone, and that it is closed.
func (s *Speaker) peerChanged(e *apiutil.WatchEventMessage_PeerEvent) {
	if e.Type != apiutil.PEER_EVENT_STATE && e.Type != apiutil.PEER_EVENT_INIT {
		return
	}
	state, address := e.Peer.State, e.Peer.State.NeighborAddress
	before := s.status[address]
	now := PeerStatus{AdminState: adminStates[state.AdminState], SessionState: sessionStates[state.SessionState], LastError: before.LastError}
	if cause := causeOf(before.SessionState, &state); before.SessionState == established && cause != "" || says(cause, before.LastError) {
		now.LastError = cause
	}
	switch state.SessionState {
	case bgp.BGP_FSM_OPENCONFIRM:
		delete(s.asked, address)
	case bgp.BGP_FSM_ESTABLISHED:
		delete(s.asked, address)
		now.LastError = ""
	}
	log := s.log.WithFields(logrus.Fields{"neighbour": address, "as": state.PeerASN})
	if state.AdminState == api.PeerState_ADMIN_STATE_PFX_CT {
		s.saysTooMuch(address)
	}
	s.status[address] = now
	switch {
	case now.SessionState == established && before.SessionState != established:
		log.Log(s.levelOf(address, log, logrus.InfoLevel), "BGP neighbour is there")
	case now.SessionState != established && before.SessionState == established:
		if _, closed := s.closed[address]; !closed { // else we have ended it
			s.sessionEnds(address, now.LastError)
		}
		log.WithField("cause", now.LastError).Log(s.levelOf(address, log, logrus.WarnLevel), "BGP neighbour is gone")
	case now.LastError != before.LastError:
		log.WithField("cause", now.LastError).Log(s.levelOf(address, log, logrus.WarnLevel), "BGP neighbour is not reached")
	}
}
