package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"github.com/contiv/netplugin/utils/inet"
)

// session is the library's server under one AS and address.
type session struct {
	settings   Settings // without neighbours
	port       uint16
	limit      uint32
	restart    time.Duration
	pace       *pace
	server     *server.BgpServer
	served     chan struct{} // closed when the server has ended
	unwatch    context.CancelFunc
	neighbours map[netip.Addr]Neighbour
}

// Timers of neighbours, in seconds: short enough that a session begins soon after a restart, and long enough that
// a neighbour which resets its session continuously costs little.
const (
	connectRetry     = 2
	idleAfterReset   = 1
	keepalivesOfHold = 3 // keepalives in a hold time
	restartDeferral  = 10
)

// families are the address families of all sessions.
var families = map[bgp.Family]*api.Family{
	bgp.RF_IPv4_UC: {Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST},
	bgp.RF_IPv6_UC: {Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST},
}

// begin starts a server, which listens and has no neighbours yet.
func (s *Speaker) begin(ctx context.Context, settings Settings) (*session, error) {
	settings.Neighbours = nil
	now := &session{
		settings: settings, port: s.cfg.Port, limit: s.cfg.MaxRoutes, restart: s.cfg.RestartTime, pace: newPace(s.log),
		served: make(chan struct{}), unwatch: func() {}, neighbours: map[netip.Addr]Neighbour{},
	}
	now.server = server.NewBgpServer(server.LoggerOption(slog.New(logHandler{s, now.pace, s.log}), nil))
	s.mu.Lock()
	s.current = now
	s.mu.Unlock()
	go func() {
		defer close(now.served)
		now.server.Serve()
	}()
	listen := []string{settings.Router.String()}
	if settings.Router6.IsValid() {
		listen = append(listen, settings.Router6.String())
	}
	err := now.server.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{
		Asn: settings.AS, RouterId: settings.Router.String(),
		ListenPort: int32(s.cfg.Port), ListenAddresses: listen, UseMultiplePaths: true,
	}})
	if err == nil {
		err = now.server.SetPolicies(ctx, exports(nil))
	}
	if err == nil {
		err = now.server.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
			Name: "global", Direction: api.PolicyDirection_POLICY_DIRECTION_EXPORT, DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
			Policies: []*api.Policy{{Name: ownRoutes}},
		}})
	}
	if err == nil {
		var watching context.Context
		watching, now.unwatch = context.WithCancel(context.WithoutCancel(ctx))
		err = now.server.WatchEvent(watching, s.callbacks(now), server.WatchBestPath(true), server.WatchEor(true), server.WatchPeer())
	}
	if err != nil {
		s.end(now, false)
		return nil, fmt.Errorf("BGP as AS %d at %s, port %d: %w", settings.AS, settings.Router, s.cfg.Port, err)
	}
	return now, nil
}

// Names of the export policy, and of the set of neighbours whose sessions end.
const (
	ownRoutes = "own-routes"
	leaving   = "leaving"
)

// exports returns the export policies: the node's own routes, to all neighbours but those whose sessions end.
func exports(left []netip.Addr) *api.SetPoliciesRequest {
	own := &api.Statement{
		Name:       ownRoutes,
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
	}
	if len(left) == 0 {
		return &api.SetPoliciesRequest{Policies: []*api.Policy{{Name: ownRoutes, Statements: []*api.Statement{own}}}}
	}
	set := &api.DefinedSet{DefinedType: api.DefinedType_DEFINED_TYPE_NEIGHBOR, Name: leaving}
	for _, address := range left {
		set.List = append(set.List, inet.Host(address).String())
	}
	none := &api.Statement{
		Name:       leaving,
		Conditions: &api.Conditions{NeighborSet: &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: leaving}},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_REJECT},
	}
	return &api.SetPoliciesRequest{DefinedSets: []*api.DefinedSet{set},
		Policies: []*api.Policy{{Name: ownRoutes, Statements: []*api.Statement{none, own}}}}
}

// fits reports whether the session can continue under other settings, neighbours aside.
func (n *session) fits(s Settings) bool {
	return n.settings.AS == s.AS && n.settings.Router == s.Router && n.settings.Router6 == s.Router6 && n.settings.NextHop6 == s.NextHop6
}

// end closes all sessions and waits for the end of the server; later events of it are ignored. With silently,
// neighbours that support graceful restart receive no NOTIFICATION.
func (s *Speaker) end(now *session, silently bool) {
	if !silently && s.announces() {
		if err := now.withdrawFrom(context.Background(), slices.Collect(maps.Keys(now.neighbours))); err != nil {
			s.log.WithError(err).Warn("the session with BGP neighbours ends all the same")
		}
	}
	s.mu.Lock()
	s.current = nil
	clear(s.status)
	clear(s.flaps)
	clear(s.awaitingOpen)
	s.mu.Unlock()
	now.unwatch()
	if silently {
		_ = now.server.StopBgp(context.Background(), &api.StopBgpRequest{AllowGracefulRestart: true}) // fails only if it was not started
	} else {
		now.server.Stop()
	}
	<-now.served
	s.mu.Lock()
	close(s.ended)
	s.ended = nil
	s.mu.Unlock()
}

// addNeighbour adds a neighbour to the server. restarting announces to the neighbour that the node has restarted,
// and has forwarded meanwhile.
func (n *session) addNeighbour(ctx context.Context, b Neighbour, restarting bool) error {
	hold := b.HoldTime
	if hold == 0 {
		hold = DefaultHoldTime
	}
	peer := &api.Peer{
		Conf: &api.PeerConf{NeighborAddress: b.Address.String(), PeerAsn: b.AS, AuthPassword: string(b.Password)},
		Timers: &api.Timers{Config: &api.TimersConfig{
			ConnectRetry: connectRetry, IdleHoldTimeAfterReset: idleAfterReset,
			HoldTime: uint64(hold.Seconds()), KeepaliveInterval: uint64(hold.Seconds()) / keepalivesOfHold,
		}},
		Transport: &api.Transport{RemotePort: uint32(n.port)},
		GracefulRestart: &api.GracefulRestart{
			Enabled: true, RestartTime: uint32(n.restart.Seconds()), DeferralTime: restartDeferral, LocalRestarting: restarting,
		},
	}
	peer.Transport.LocalAddress = n.settings.Router.String()
	if b.Address.Is6() {
		peer.Transport.LocalAddress = n.settings.Router6.String()
	}
	for _, family := range families {
		peer.AfiSafis = append(peer.AfiSafis, &api.AfiSafi{
			Config:            &api.AfiSafiConfig{Family: family, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: true}},
			PrefixLimits:      &api.PrefixLimit{Family: family, MaxPrefixes: n.limit},
		})
	}
	if err := n.server.AddPeer(ctx, &api.AddPeerRequest{Peer: peer}); err != nil {
		return fmt.Errorf("BGP neighbour %s of AS %d: %w", b.Address, b.AS, err)
	}
	n.neighbours[b.Address] = b
	return nil
}

// removeNeighbours ends the sessions with neighbours. announced: there are routes to withdraw before. It returns
// those that are removed, also with an error.
func (n *session) removeNeighbours(ctx context.Context, addresses []netip.Addr, announced bool) (gone []netip.Addr, err error) {
	if announced {
		err = n.withdrawFrom(ctx, addresses)
	}
	for _, address := range addresses {
		if err != nil {
			break
		}
		if err = n.server.DeletePeer(ctx, &api.DeletePeerRequest{Address: address.String()}); err == nil {
			delete(n.neighbours, address)
			gone = append(gone, address)
		}
	}
	if err != nil {
		err = fmt.Errorf("end of BGP neighbours %s: %w", addresses, err)
	}
	return gone, errors.Join(err, n.announceAgain(ctx, addresses))
}

// announce adds prefixes to the server's routes, and removes others.
func (n *session) announce(add, remove []netip.Prefix) error {
	for _, p := range add {
		path, err := n.path(p)
		if err != nil {
			return err
		}
		if path == nil {
			continue
		}
		answers, err := n.server.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{path}})
		for _, a := range answers {
			if err == nil {
				err = a.Error
			}
		}
		if err != nil {
			return fmt.Errorf("announce %s: %w", p, err)
		}
	}
	for _, p := range remove {
		path, err := n.path(p)
		if err != nil {
			return err
		}
		if path == nil {
			continue
		}
		if err := n.server.DeletePath(apiutil.DeletePathRequest{Paths: []*apiutil.Path{path}}); err != nil {
			return fmt.Errorf("withdraw %s: %w", p, err)
		}
	}
	return nil
}

// path returns the path to announce for a prefix; nil for IPv6 without a next hop.
func (n *session) path(p netip.Prefix) (*apiutil.Path, error) {
	nlri, err := bgp.NewIPAddrPrefix(p)
	if err != nil {
		return nil, fmt.Errorf("prefix %s: %w", p, err)
	}
	path := &apiutil.Path{Family: bgp.RF_IPv4_UC, Nlri: nlri}
	var nextHop bgp.PathAttributeInterface
	if p.Addr().Is4() {
		nextHop, err = bgp.NewPathAttributeNextHop(n.settings.Router)
	} else {
		if !n.settings.NextHop6.IsValid() {
			return nil, nil
		}
		path.Family = bgp.RF_IPv6_UC
		nextHop, err = bgp.NewPathAttributeMpReachNLRI(path.Family, []bgp.PathNLRI{{NLRI: nlri}}, n.settings.NextHop6)
	}
	if err != nil {
		return nil, fmt.Errorf("next hop of %s: %w", p, err)
	}
	path.Attrs = []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP), nextHop}
	return path, nil
}
