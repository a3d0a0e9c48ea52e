package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/keylock"
	"github.com/contiv/netplugin/utils/notify"
)

// Config configures an agent. HostLabel, Driver and DB are required.
type Config struct {
	HostLabel string     // identity of this node in the store
	VTEP      netip.Addr // this node's VTEP, for the operational records
	FwdMode   string     // forwarding mode of the command line; that of the store has precedence
	Driver    drivers.NetworkDriver
	Uplink    bool                                   // the driver serves networks of encapsulation vlan as well
	Outside   bool                                   // endpoints of routed networks reach the outside through this host
	Here      []netip.Addr                           // addresses on the host's interfaces when the agent starts
	Needed    func(protocol uint8, port uint16) bool // whether the node itself uses the port, at any of its addresses; nil: it uses none
	Border    Border                                 // the node's BGP speaker; nil: the node has no uplink
	DB        *objdb.DB
	Shown     bool                  // DB is the view that a netmaster's gate serves to the node, not the whole store
	Names     *nameserver.Zones     // is given the names of endpoints; nil: no name server
	Metrics   prometheus.Registerer // nil: no metrics
	// AnswersFile caches the addresses of domain names for the next run of the agent; empty: they are not
	// saved.
	AnswersFile string
	Log         *logrus.Entry

	ReapInterval time.Duration // interval of the search for orphaned ports; default 5 min
	ReapGrace    time.Duration // how long a port may be without an endpoint; default 1 min
	SweepGrace   time.Duration // how long an endpoint of this node may be without a container; default 10 min
	RewindGrace  time.Duration // how long records that a restored store lacks are kept; default 2 min
	AnnounceWait time.Duration // how long the first state waits until the store has the endpoints of attached containers; default 15 s
	Linger       time.Duration // how long a tenant stays in the switch after its last endpoint here is removed; default 5 min
}

// Agent keeps the driver's wanted objects equal to the state in the store.
type Agent struct {
	cfg     Config
	log     *logrus.Entry
	mirrors []*follower
	metrics metrics

	mu       sync.Mutex // guards this block
	cache    *cache
	planner  planner
	started  bool          // the driver has been given the first complete state
	news     chan struct{} // closed and replaced whenever the cache has changed
	wasReady time.Time     // when the agent was last seen ready
	health   KubeHealth    // as of the last change for which it was asked
	troubles troubles
	border   borderState
	held     held

	changed notify.Signal // there may be something to plan
	given   notify.Signal // the driver was given a change
	behind  notify.Signal // there is a backlog
	report  notify.Signal // ports or local endpoints changed
	tell    notify.Signal // the switch has the policies of another epoch, or conflicts of ports changed
	host    notify.Signal // the wanted configuration of the host may have changed
	settle  notify.Signal // domain names may have other addresses
	inSync  flag          // the switch has once had all wanted objects
	serving flag          // the driver has been given the first state

	enforced     atomic.Pointer[mastercfg.K8sEnforced] // policies that the switch enforces; nil: not known
	outsideWaits atomic.Bool                           // the port to the host is added together with the next endpoint's
	ports        keylock.Locks[string]                 // by endpoint: serializes PreparePort, Detach and the reaper
}

// follower mirrors one prefix of the store.
type follower struct {
	*mirror.Mirror
	prefix   string
	complete bool // the first snapshot is in the cache
}

// followed are the prefixes that an agent mirrors; the state is the first.
var followed = []string{mastercfg.StateRoot, mastercfg.GlobalRoot, objdb.ServicePrefix}

// New returns an agent, which does nothing before Run.
func New(cfg Config) *Agent {
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "agent")
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&cfg.ReapInterval, 5 * time.Minute},
		{&cfg.ReapGrace, time.Minute},
		{&cfg.SweepGrace, 10 * time.Minute},
		{&cfg.RewindGrace, 2 * time.Minute},
		{&cfg.AnnounceWait, 15 * time.Second},
		{&cfg.Linger, 5 * time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	a := &Agent{
		cfg: cfg, log: cfg.Log,
		cache: newCache(cfg.HostLabel, cfg.Log), planner: newPlanner(), news: make(chan struct{}),
		changed: notify.New(), given: notify.New(), behind: notify.New(), report: notify.New(), tell: notify.New(),
		host: notify.New(), settle: notify.New(), inSync: newFlag(), serving: newFlag(),
		held: newHeld(cfg),
	}
	a.cache.vtep, a.cache.tenants.linger, a.cache.uplink, a.cache.outside = cfg.VTEP, cfg.Linger, cfg.Uplink, cfg.Outside
	a.cache.needed = cfg.Needed
	a.cache.setStandInAddresses(cfg.Here)
	a.planner.names = cfg.Names
	for _, prefix := range followed {
		m := &follower{prefix: prefix}
		m.Mirror = mirror.New(cfg.DB, prefix, func(b mirror.Batch) { a.takeIn(m, b) })
		a.mirrors = append(a.mirrors, m)
	}
	a.metrics = newMetrics(a)
	return a
}

// Run mirrors the store until ctx is done. It does not run the driver.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.metrics.register(a.cfg.Metrics); err != nil {
		return err
	}
	a.recallAnswers()
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range a.mirrors {
		group.Go(func() error { return m.Run(ctx) })
	}
	for _, loop := range []func(context.Context) error{a.program, a.programBacklog, a.confirm, newReaper(a).run, a.reportLoop, a.followNames} {
		group.Go(func() error { return loop(ctx) })
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// takeIn applies one batch of a mirror to the cache.
func (a *Agent) takeIn(m *follower, b mirror.Batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.cache.global
	if b.Another {
		a.noteRewind(m, b.Revision)
	}
	a.applyEvents(m, b)
	a.expelClashing()
	m.complete = m.complete || b.Snapshot
	if after := a.cache.global; after != before {
		a.noteGlobal(after)
		a.cache.hostDirty = true
	}
	a.cache.hostDirty = a.cache.hostDirty || b.Snapshot
	a.wakeHost()
	a.wakeWaiters()
	a.changed.Send()
}

// noteRewind prepares for what a store lacks that went back, or is another one.
func (a *Agent) noteRewind(m *follower, revision int64) {
	a.held.rewound, a.held.wentBack = true, true
	a.cache.peers.storeRewound()
	a.report.Send()
	a.log.WithFields(logrus.Fields{"prefix": m.prefix, "revision": revision}).
		Warn("the store went back or is another one; what it lacks is kept for a while")
}

// applyEvents applies the events of a batch to the cache, except deletions of what is held.
func (a *Agent) applyEvents(m *follower, b mirror.Batch) {
	if m.prefix == objdb.ServicePrefix { // deletions first: a registration that vanished while we were disconnected must not refuse a new one
		slices.SortStableFunc(b.Events, func(x, y mirror.Event) int { return min(len(x.Value), 1) - min(len(y.Value), 1) })
	}
	until := time.Now().Add(a.cfg.RewindGrace)
	for _, event := range b.Events { // endpoints first: they decide whether the policies of their tenants are kept
		if event.Value == nil && strings.HasPrefix(event.Key, mastercfg.EndpointPrefix) {
			a.held.keep(event.Key, b.Another, until) // the second loop acts on the result
		}
	}
	for _, event := range b.Events {
		if event.Value == nil && a.held.keep(event.Key, b.Another, until) {
			continue
		}
		stored := a.storedHere(event.Key)
		delete(a.held.absent, event.Key)
		if m.complete && a.isReregistration(event.Key, event.Value) {
			a.held.rewound = true
			a.report.Send()
		}
		a.cache.apply(event.Key, event.Value, event.ModRevision)
		if b.Another && !stored && a.storedHere(event.Key) {
			a.returned(strings.TrimPrefix(event.Key, mastercfg.EndpointPrefix))
		}
	}
}

// wakeHost wakes package hostaccess if the part of the cache that it uses has changed. The caller holds the lock.
func (a *Agent) wakeHost() {
	if a.cache.hostDirty {
		a.cache.hostDirty = false
		a.host.Send()
	}
}

// wakeWaiters wakes the callers that wait for a change of the cache. The caller holds the lock.
func (a *Agent) wakeWaiters() {
	close(a.news)
	a.news = make(chan struct{})
}

func (a *Agent) noteGlobal(global mastercfg.GlobConfig) {
	log := a.log.WithFields(logrus.Fields{"fwd-mode": global.FwdMode, "pvt-subnet": global.PvtSubnet, "arp-mode": global.ArpMode})
	if a.cfg.FwdMode != "" && global.FwdMode != "" && global.FwdMode != a.cfg.FwdMode {
		log.WithField("flag", a.cfg.FwdMode).Warn("forwarding mode differs from the flag; the cluster's counts")
		return
	}
	log.Info("global configuration")
}

// AwaitState blocks until the first complete state is known.
func (a *Agent) AwaitState(ctx context.Context) error { return a.serving.await(ctx) }

// AwaitSync blocks until the switch has once had all wanted objects.
func (a *Agent) AwaitSync(ctx context.Context) error { return a.inSync.await(ctx) }
