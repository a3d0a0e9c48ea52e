package bgp

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Inspect returns the states of the neighbours, and the prefixes that they and this node have announced; nil
// without neighbours. Prefixes are formatted without the lock: with many routes that takes long.
func (s *Speaker) Inspect() *mastercfg.NodeBgp {
	view, learned, announced := s.snapshot()
	if view == nil {
		return nil
	}
	for _, p := range sorted(learned) {
		view.Dsts = append(view.Dsts, p.String())
	}
	for _, p := range sorted(announced) {
		view.Announced = append(view.Announced, p.String())
	}
	return view
}

func sorted(prefixes []netip.Prefix) []netip.Prefix {
	slices.SortFunc(prefixes, comparePrefix)
	return prefixes
}

// snapshot is the part of Inspect that holds the lock.
func (s *Speaker) snapshot() (view *mastercfg.NodeBgp, learned, announced []netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted == nil || len(s.wanted.Neighbours) == 0 {
		return nil, nil, nil
	}
	view = &mastercfg.NodeBgp{Peers: []mastercfg.NodeBgpPeer{}, Dsts: []string{}}
	routes := map[netip.Addr]int{}
	for p, hops := range s.table.routes {
		learned = append(learned, p)
		for _, h := range hops {
			routes[h.neighbour]++
		}
	}
	for _, n := range s.wanted.Neighbours {
		var peer mastercfg.NodeBgpPeer
		peer.Config.NeighborAddress, peer.Config.PeerAs, peer.Config.LocalAs = n.Address.String(), n.AS, s.wanted.AS
		status := s.status[n.Address]
		if c, closed := s.closed[n.Address]; closed {
			status = c.status
		}
		peer.State.AdminState, peer.State.SessionState, peer.State.LastError = status.AdminState, status.SessionState, status.LastError
		if s.problem != nil {
			peer.State.LastError = s.problem.Error()
		}
		peer.State.Routes = routes[n.Address]
		peer.State.Flapping = s.flaps[n.Address].text(time.Now())
		view.Peers = append(view.Peers, peer)
	}
	return view, learned, slices.Collect(maps.Keys(s.announced))
}

// Counts are the metrics of a speaker.
type Counts struct {
	Neighbours, Sessions int // wanted, and established
	Learned, Announced   int // prefixes
}

// Counts returns the present numbers.
func (s *Speaker) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Counts{Learned: len(s.table.routes)}
	if s.wanted == nil {
		return c
	}
	c.Neighbours, c.Announced = len(s.wanted.Neighbours), len(s.announced)
	for _, status := range s.status {
		if status.SessionState == established {
			c.Sessions++
		}
	}
	return c
}

// Announced lists the prefixes that are announced, ascending.
func (s *Speaker) Announced() []netip.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.announced), comparePrefix)
}
