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

// Settings are what a node has been told about BGP.
type Settings struct {
	AS         uint32
	Router     netip.Addr  // our IPv4 address among the neighbours: router id, our end of sessions, next hop of what we announce
	Router6    netip.Addr  // our IPv6 address among the neighbours, our end of sessions of IPv6; invalid: there are none
	NextHop6   netip.Addr  // next hop of IPv6; invalid: nothing of IPv6 is announced
	Neighbours []Neighbour // each address once
}

// Neighbour is a router to speak with, on a link of ours.
type Neighbour struct {
	Address  netip.Addr
	AS       uint32        // ours: an internal session
	Password secret.Text   // of TCP MD5 (RFC 2385); empty: none
	HoldTime time.Duration // after which silence means death, at least 3 s; 0: DefaultHoldTime
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
	Port        uint16        // of TCP, ours and the neighbours'; 0: ports.BGP
	MaxRoutes   uint32        // of a neighbour, for IPv4 and for IPv6 each; 0: DefaultMaxRoutes
	RestartTime time.Duration // how long routes hold while their speaker restarts; 0: DefaultRestartTime
	ClosedTime  time.Duration // how long a neighbour with too many routes stays closed; 0: DefaultClosedTime
	Log         *logrus.Entry
}

// Speaker speaks BGP. All methods but Run and Silence return at once.
type Speaker struct {
	cfg  Config
	log  *logrus.Entry
	wake notify.Signal
	news notify.Signal
	late *time.Timer // an earlier run is too long ago for what it left

	mu         sync.Mutex    // guards all below
	current    *session      // whose server is heard
	over       chan struct{} // closed when neighbours have been told that the session is over; nil: there is none, nor one that begins
	recalled   bool          // there was an earlier run
	wanted     *Settings
	announced  map[netip.Prefix]struct{}
	dirty      map[netip.Prefix]struct{} // announced or withdrawn since the session was told
	table      table
	status     map[netip.Addr]PeerStatus
	closed     map[netip.Addr]closure   // neighbours that nobody speaks with for a while
	flaps      map[netip.Addr]*flaps    // of neighbours whose sessions have ended
	asked      map[netip.Addr]time.Time // neighbours that have accepted a connection and not introduced themselves, since when
	complaints complaints               // of the library
	problem    error                    // why there is no session; nil: there is one, or none is wanted
}

// New makes a speaker that is silent until Configure.
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
		cfg: cfg, log: cfg.Log, wake: notify.New(), news: notify.New(), late: time.NewTimer(cfg.RestartTime), table: newTable(),
		announced: map[netip.Prefix]struct{}{}, dirty: map[netip.Prefix]struct{}{},
		status: map[netip.Addr]PeerStatus{}, closed: map[netip.Addr]closure{}, flaps: map[netip.Addr]*flaps{}, asked: map[netip.Addr]time.Time{}, complaints: complaints{},
	}
}

// Configure gives the speaker its settings; nil silences it, in a while.
func (s *Speaker) Configure(wanted *Settings) {
	s.mu.Lock()
	s.wanted = wanted
	s.mu.Unlock()
	s.wake.Send()
}

// Silence silences the speaker, and waits until neighbours have been told that the session is over, or for the end of ctx, which it
// returns as an error. Our addresses are needed until then.
func (s *Speaker) Silence(ctx context.Context) error {
	s.Configure(nil)
	s.mu.Lock()
	over := s.over
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

// intend returns the settings. From then on there is something that Silence waits for, if they are for a session.
func (s *Speaker) intend() *Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted != nil && s.over == nil {
		s.over = make(chan struct{})
	}
	return s.wanted
}

// Announce has prefixes announced, and others not any more.
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

// Recall tells the speaker, before Configure, that there was a run just now, and gives it
// the routes of that. They hold until their neighbour has said everything again, or for the
// restart time, whether there is a session or none can begin. Neighbours, also those without
// routes, are told that what they send was forwarded meanwhile.
func (s *Speaker) Recall(routes []Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range routes {
		s.table.set(r, true)
	}
	s.recalled = true
	s.late.Reset(s.cfg.RestartTime)
	s.news.Send()
}

// News has a value when there are changes to take.
func (s *Speaker) News() <-chan struct{} { return s.news }

// Changes returns at most so many of the prefixes whose next hops have changed since the last call, in no order, and whether there
// are more.
func (s *Speaker) Changes(most int) (list []Change, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.takeChanges(most)
}

// Repeat has all that is in force be among the next changes.
func (s *Speaker) Repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix := range s.table.routes {
		s.table.changed[prefix] = struct{}{}
	}
	s.news.Send()
}

// Routes lists what is in force, for Recall.
func (s *Speaker) Routes() []Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.all()
}

// Run speaks until ctx is done, and then falls silent without telling the
// neighbours, so that they wait for the next run.
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
		case <-s.late.C:
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
		now, next, err = s.settle(ctx, now)
		s.note(err)
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

// settle makes the session what it should be. It says when to look again.
func (s *Speaker) settle(ctx context.Context, now *session) (*session, time.Duration, error) {
	wanted := s.intend()
	if now != nil && (wanted == nil || !now.fits(*wanted)) {
		s.end(now, false)
		now = nil
		s.dropRoutes(func(netip.Prefix, hop) bool { return true })
		wanted = s.intend()
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
	if err := s.tell(now); err != nil {
		return now, 0, err
	}
	open, next := s.open(wanted.Neighbours, now)
	if soon := s.noteUnanswered(time.Now()); next == 0 || soon > 0 && soon < next {
		next = soon
	}
	return now, next, s.settleNeighbours(ctx, now, open)
}

// announces tells whether there is a route that neighbours are told.
func (s *Speaker) announces() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.announced) > 0
}

// tell brings up to date what is announced.
func (s *Speaker) tell(now *session) error {
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

// settleNeighbours ends and begins what is to be spoken with whom. A neighbour with
// other settings is a new one.
func (s *Speaker) settleNeighbours(ctx context.Context, now *session, wanted []Neighbour) error {
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
			if _, closed := s.closed[address]; !closed { // else it is left for a while, and not by an operator
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

// open drops from a list the neighbours that are closed, and says when the first of them may not be any more. One that has been is
// met as a new one, so it stays closed until the session is without it.
func (s *Speaker) open(all []Neighbour, now *session) (open []Neighbour, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range all {
		c, closed := s.closed[n.Address]
		_, there := now.neighbours[n.Address]
		left := time.Until(c.until)
		if !closed || left <= 0 && !there {
			open = append(open, n)
			s.reopen(n.Address)
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

// note keeps why there is no session, and logs it once.
func (s *Speaker) note(err error) {
	s.mu.Lock()
	fresh := err != nil && (s.problem == nil || s.problem.Error() != err.Error())
	s.problem = err
	s.mu.Unlock()
	if fresh {
		s.log.WithError(err).Error("BGP does not work")
	}
}
