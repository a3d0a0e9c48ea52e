package bgp

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/ports"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/secret"
)

// Settings are the BGP configuration of a node.
type Settings struct {
	AS         uint32
	Router     netip.Addr  // the node's IPv4 address on the neighbours' link: router id, local address of sessions, IPv4 next hop
	Router6    netip.Addr  // likewise for IPv6, for sessions over IPv6; invalid: none
	NextHop6   netip.Addr  // IPv6 next hop; invalid: no IPv6 prefix is announced
	Neighbours []Neighbour // each address once
}

// Neighbour is a router to peer with, on a link of the node.
type Neighbour struct {
	Address  netip.Addr
	AS       uint32        // if it is the node's, the session is internal (iBGP)
	Password secret.Text   // of TCP MD5 (RFC 2385); empty: none
	HoldTime time.Duration // at least 3 s; 0: DefaultHoldTime
}

// DefaultHoldTime is the hold time that RFC 4271 suggests.
const DefaultHoldTime = 90 * time.Second

// Limits and times of Config.
const (
	DefaultMaxRoutes   = 20000
	DefaultRestartTime = 2 * time.Minute
	DefaultClosedTime  = 5 * time.Minute
)

// Config of a speaker.
type Config struct {
	Port        uint16        // TCP port of both ends; 0: ports.BGP
	MaxRoutes   uint32        // per neighbour and IP family; 0: DefaultMaxRoutes
	RestartTime time.Duration // how long routes are retained while their speaker restarts; 0: DefaultRestartTime
	ClosedTime  time.Duration // how long a neighbour with too many routes stays closed; 0: DefaultClosedTime
	Log         *logrus.Entry
}

// Speaker speaks BGP. All methods but Run and Silence return at once.
type Speaker struct {
	cfg        Config
	log        *logrus.Entry
	wake       notify.Signal
	news       notify.Signal
	staleTimer *time.Timer // fires when stale routes of an earlier run expire

	mu             sync.Mutex    // guards all below
	current        *session      // the session whose events count
	ended          chan struct{} // closed when the session has ended, with neighbours notified; nil: there is none, nor one that begins
	recalled       bool          // there was an earlier run
	wanted         *Settings
	announced      map[netip.Prefix]struct{}
	dirty          map[netip.Prefix]struct{} // announced or withdrawn, and not passed to the session yet
	table          table
	status         map[netip.Addr]PeerStatus
	closed         map[netip.Addr]closure   // neighbours that get no session for a while
	flaps          map[netip.Addr]*flaps    // of neighbours whose sessions have ended
	awaitingOpen   map[netip.Addr]time.Time // neighbours that have accepted a connection and not sent OPEN, since when
	loggedWarnings loggedWarnings           // of the library
	problem        error                    // why there is no session; nil: there is one, or none is wanted
}

// New returns a speaker without sessions until Configure.
func New(cfg Config) *Speaker {
	if cfg.Port == 0 {
		cfg.Port = ports.BGP
	}
	if cfg.MaxRoutes == 0 {
		cfg.MaxRoutes = DefaultMaxRoutes
	}
	if cfg.RestartTime <= 0 {
		cfg.RestartTime = DefaultRestartTime
	}
	if cfg.ClosedTime <= 0 {
		cfg.ClosedTime = DefaultClosedTime
	}
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "bgp")
	}
	return &Speaker{
		cfg: cfg, log: cfg.Log, wake: notify.New(), news: notify.New(), staleTimer: time.NewTimer(cfg.RestartTime), table: newTable(),
		announced: map[netip.Prefix]struct{}{}, dirty: map[netip.Prefix]struct{}{},
		status: map[netip.Addr]PeerStatus{}, closed: map[netip.Addr]closure{}, flaps: map[netip.Addr]*flaps{}, awaitingOpen: map[netip.Addr]time.Time{}, loggedWarnings: loggedWarnings{},
	}
}

// Configure sets the speaker's settings; nil ends all sessions, some time after it returns.
func (s *Speaker) Configure(wanted *Settings) {
	s.mu.Lock()
	s.wanted = wanted
	s.mu.Unlock()
	s.wake.Send()
}

// Silence ends all sessions, and waits until neighbours have been notified; it returns an error if ctx ends
// before. The addresses of the sessions are needed until it returns.
func (s *Speaker) Silence(ctx context.Context) error {
	s.Configure(nil)
	s.mu.Lock()
	over := s.ended
	s.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("BGP neighbours are not told yet that the session is over: %w", ctx.Err())
	}
}

// takeSettings returns the settings. If they require a session, Silence has to wait for its end from then on.
func (s *Speaker) takeSettings() *Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted != nil && s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.wanted
}

// Announce announces prefixes, and withdraws others.
func (s *Speaker) Announce(add, remove []netip.Prefix) {
	s.mu.Lock()
	for _, p := range remove {
		delete(s.announced, p)
		s.dirty[p] = struct{}{}
	}
	for _, p := range add {
		s.announced[p] = struct{}{}
		s.dirty[p] = struct{}{}
	}
	s.mu.Unlock()
	s.wake.Send()
}

// Recall passes the routes of an earlier run to the speaker, before Configure. They are stale until their
// neighbour has sent End-of-RIB, and are removed after the restart time, even if no session can begin. All
// neighbours, also those without routes, are notified that the node has restarted and has forwarded packets
// meanwhile.
func (s *Speaker) Recall(routes []Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range routes {
		s.table.recall(r)
	}
	s.recalled = true
	s.staleTimer.Reset(s.cfg.RestartTime)
	s.news.Send()
}

// News returns a channel that has a value when Changes has results.
func (s *Speaker) News() <-chan struct{} { return s.news }

// Changes returns prefixes whose next hops have changed since the last call, at most most, unordered, and whether
// there are more.
func (s *Speaker) Changes(most int) (list []Change, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.takeChanges(most)
}

// Repeat makes Changes return all routes again.
func (s *Speaker) Repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix := range s.table.routes {
		s.table.changed[prefix] = struct{}{}
	}
	s.news.Send()
}

// Routes lists the routes in force, for Recall.
func (s *Speaker) Routes() []Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.all()
}

// Run maintains the sessions until ctx ends. Then it ends without a NOTIFICATION, so that neighbours retain the
// node's routes for the next run.
func (s *Speaker) Run(ctx context.Context) error {
	again := time.NewTimer(0)
	defer again.Stop()
	wait := retry.NewPacer(100*time.Millisecond, 5*time.Second)
	var now *session
	defer func() {
		if now != nil {
			s.end(now, true)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.staleTimer.C:
			s.mu.Lock()
			s.recalled = false
			s.mu.Unlock()
			s.dropRoutes(func(_ netip.Prefix, h hop) bool { return h.stale })
			continue
		case <-s.wake:
		case <-again.C:
		}
		var err error
		var next time.Duration
		now, next, err = s.reconcile(ctx, now)
		s.noteProblem(err)
		if err != nil {
			again.Reset(wait.Next())
			continue
		}
		wait.Reset()
		if next > 0 {
			again.Reset(next)
		}
	}
}

// reconcile begins, changes or ends the session according to the settings. It returns after how long to call it
// again; 0: no need.
func (s *Speaker) reconcile(ctx context.Context, now *session) (*session, time.Duration, error) {
	wanted := s.takeSettings()
	if now != nil && (wanted == nil || !now.fits(*wanted)) {
		s.end(now, false)
		now = nil
		s.dropRoutes(func(netip.Prefix, hop) bool { return true })
		wanted = s.takeSettings()
	}
	if wanted == nil {
		return nil, 0, nil
	}
	if now == nil {
		fresh, err := s.begin(ctx, *wanted)
		if err != nil {
			return nil, 0, err
		}
		now = fresh
		s.dropRoutes(func(_ netip.Prefix, h hop) bool {
			return !slices.ContainsFunc(wanted.Neighbours, func(n Neighbour) bool { return n.Address == h.neighbour })
		})
		s.mu.Lock()
		for p := range s.announced {
			s.dirty[p] = struct{}{}
		}
		s.mu.Unlock()
	}
	if err := s.passAnnouncements(now); err != nil {
		return now, 0, err
	}
	open, next := s.openNeighbours(wanted.Neighbours, now)
	if soon := s.reportUnanswered(time.Now()); next == 0 || soon > 0 && soon < next {
		next = soon
	}
	return now, next, s.reconcileNeighbours(ctx, now, open)
}

// announces reports whether any prefix is announced.
func (s *Speaker) announces() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.announced) > 0
}

// passAnnouncements passes the announcements and withdrawals since the last call to the session.
func (s *Speaker) passAnnouncements(now *session) error {
	s.mu.Lock()
	dirty := slices.SortedFunc(maps.Keys(s.dirty), comparePrefix)
	clear(s.dirty)
	var add, remove []netip.Prefix
	for _, p := range dirty {
		if _, wanted := s.announced[p]; wanted {
			add = append(add, p)
		} else {
			remove = append(remove, p)
		}
	}
	s.mu.Unlock()
	err := now.announce(add, remove)
	if err != nil {
		s.mu.Lock()
		for _, p := range dirty {
			s.dirty[p] = struct{}{}
		}
		s.mu.Unlock()
	}
	return err
}

// reconcileNeighbours removes and adds neighbours of the session. A neighbour with changed settings is removed and
// added.
func (s *Speaker) reconcileNeighbours(ctx context.Context, now *session, wanted []Neighbour) error {
	var leave []netip.Addr
	for address, have := range now.neighbours {
		if !slices.Contains(wanted, have) {
			leave = append(leave, address)
		}
	}
	if len(leave) > 0 {
		gone, err := now.removeNeighbours(ctx, leave, s.announces())
		s.dropRoutes(func(_ netip.Prefix, h hop) bool { return slices.Contains(gone, h.neighbour) })
		s.mu.Lock()
		for _, address := range gone {
			delete(s.status, address)
			if _, closed := s.closed[address]; !closed { // a closed one was not removed by the operator, and will be added again
				delete(s.flaps, address)
			}
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	for _, n := range wanted {
		if _, there := now.neighbours[n.Address]; there {
			continue
		}
		s.mu.Lock()
		restarting := s.recalled
		s.mu.Unlock()
		if err := now.addNeighbour(ctx, n, restarting); err != nil {
			return err
		}
	}
	return nil
}

// openNeighbours returns the neighbours that are not closed, and after how long the first closure ends; 0: there
// is none. A closed neighbour is added as a new one, so it remains closed until the session has removed it.
func (s *Speaker) openNeighbours(all []Neighbour, now *session) (open []Neighbour, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range all {
		c, closed := s.closed[n.Address]
		_, there := now.neighbours[n.Address]
		left := time.Until(c.until)
		if !closed || left <= 0 && !there {
			open = append(open, n)
			s.reopenNeighbour(n.Address)
			continue
		}
		if left = max(left, time.Millisecond); next == 0 || left < next {
			next = left
		}
	}
	return open, next
}

func (s *Speaker) dropRoutes(goes func(netip.Prefix, hop) bool) {
	s.mu.Lock()
	s.table.drop(goes)
	s.mu.Unlock()
	s.news.Send()
}

// noteProblem records why there is no session, and logs it if that is new.
func (s *Speaker) noteProblem(err error) {
	s.mu.Lock()
	fresh := err != nil && (s.problem == nil || s.problem.Error() != err.Error())
	s.problem = err
	s.mu.Unlock()
	if fresh {
		s.log.WithError(err).Error("BGP does not work")
	}
}
