package border

import (
	"context"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/notify"
)

// Interface is the host's interface among the routers outside, and the id of its port.
const Interface = "inb01"

// DefaultStateDir is where routes are kept. It is not the directory of the attachments,
// whose owner would take the file for a spoiled one.
const DefaultStateDir = "/var/lib/contiv/border"

// Config of a Border.
type Config struct {
	Driver    drivers.NetworkDriver // of the bridge with the uplinks
	StateFile string                // where routes are kept; empty: in DefaultStateDir
	Speaker   bgp.Config
	Uplinks   []string                     // links of the host that are the bridge's
	Machines  func() ([]netip.Addr, error) // where others of the cluster are reached, sorted; nil: nobody knows of any
	Log       *logrus.Entry
}

// Border is a driver that knows routes.
type Border struct {
	drivers.NetworkDriver
	cfg     Config
	log     *logrus.Entry
	speaker *bgp.Speaker
	arp     *hostaccess.RouterARP
	left    func() *saved // of an earlier run; nil: nothing of use
	wake    notify.Signal
	met     notify.Signal // the kernel has learned something of next hops
	lingers *time.Timer   // something of late is over
	given   notify.Signal // the driver was given what may be announced when the switch has it

	unsaved  atomic.Bool // what is to be kept for the next run has changed
	keepNext time.Time   // when that may be done; the loop's
	kept     bool        // this run has done it; the loop's
	versions string      // what was said last of IPv6 at the interface; the loop's
	unkept   bool        // the last try has failed; the loop's

	mu      sync.Mutex
	wanted  *agent.BGP      // nil: this node is no router
	cleared bool            // there is no interface, of an earlier run neither
	router  pipeline.Router // zero: not yet, or no more
	links   [2]netip.Prefix // of IPv4 and IPv6, in which routes lead to next hops by now
	told    bool            // by the agent, what is wanted
	started bool            // the driver has been given its first state
	rib     *rib
	outer   *announcing
	late    map[pipeline.Key]lingering
	remote  map[pipeline.Key]pipeline.Endpoint // endpoints of other nodes
	problem string                             // why there is no router

	neighbours []netip.Addr // that routes lead to
	recalled   bool         // what an earlier run has left is taken in
}

var (
	_ drivers.NetworkDriver = (*Border)(nil)
	_ agent.Border          = (*Border)(nil)
)

// New makes the border of a node. Nothing happens before Configure.
func New(cfg Config) *Border {
	if cfg.StateFile == "" {
		cfg.StateFile = filepath.Join(DefaultStateDir, "routes.json")
	}
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "border")
	}
	b := &Border{
		NetworkDriver: cfg.Driver, cfg: cfg, log: cfg.Log, speaker: bgp.New(cfg.Speaker), arp: hostaccess.NewRouterARP(), wake: notify.New(), met: notify.New(), given: notify.New(),
		outer: newAnnouncing(), late: map[pipeline.Key]lingering{}, lingers: time.NewTimer(lingerTime), remote: map[pipeline.Key]pipeline.Endpoint{},
	}
	b.rib, b.left = newRIB(), b.savedLoader()
	return b
}

// Configure tells how the node is to speak with routers; nil: not at all. Called
// before the first change is given, it sees to it that routes of an earlier run are
// part of that.
func (b *Border) Configure(wanted *agent.BGP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted, b.told = wanted, true
	b.unsaved.Store(true)
	if !b.started && wanted != nil && interfaceHas(wanted.Link) {
		b.restore(b.left())
	}
	b.wake.Send()
}

// Run runs the driver, the speaker and the border itself.
func (b *Border) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{b.NetworkDriver.Run, b.speaker.Run, b.loop, b.listen, b.announce} {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// Update passes a change on, with what it means for routes.
func (b *Border) Update(c drivers.Change) {
	var known map[netip.Addr][6]byte // next hops of a first state, which are not to be missed
	if c.Replace {
		var err error
		if _, known, err = readNeighbours(); err != nil {
			b.log.WithError(err).Debug("next hops")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	set := b.withDraining(c)
	if b.outer.take(c) {
		b.passAnnouncements() // what goes, before it goes
		defer b.given.Send()
	}
	routes := delta{}
	gone := slices.Clone(c.Remove)
	if c.Replace {
		gone = slices.AppendSeq(gone, maps.Keys(b.remote))
	}
	for _, key := range gone {
		b.leave(key, routes)
	}
	for _, o := range c.Set {
		b.leave(o.Key(), routes)
		if e, ok := o.(pipeline.Endpoint); ok && !e.Local && e.Encap == pipeline.VLAN && !e.Mode.Bridged() {
			b.remote[e.Key()] = e
			b.routeToNode(e, routes)
		}
	}
	if c.Replace {
		b.started = true
		if b.router.ID != "" && known != nil {
			b.updateNextHops(known, routes)
		}
		routes = delta{}
		for _, o := range b.rib.all() {
			routes.set(o)
		}
		if b.router.ID != "" {
			routes.set(b.router)
		}
	}
	own := routes.change()
	c.Set, c.Remove = slices.Concat(set, own.Set), slices.Concat(c.Remove, own.Remove)
	b.NetworkDriver.Update(c)
}

// leave leads to an endpoint of another node no more.
func (b *Border) leave(key pipeline.Key, d delta) {
	e, ok := b.remote[key]
	if !ok {
		return
	}
	delete(b.remote, key)
	for _, p := range hostPrefixes(e) {
		b.rib.setNode(p, netip.Addr{}, d)
	}
}

// routeToNeighbours adds host routes to the configured BGP neighbours, and removes those to former ones. It is called with the
// lock.
func (b *Border) routeToNeighbours(wanted *agent.BGP, d delta) {
	former := b.neighbours
	b.neighbours = nil
	for _, n := range wanted.Neighbours {
		b.neighbours = append(b.neighbours, n.Address)
		b.rib.setNode(inet.Host(n.Address), n.Address, d)
	}
	for _, a := range former {
		if !slices.Contains(b.neighbours, a) {
			b.rib.setNode(inet.Host(a), netip.Addr{}, d)
		}
	}
}

// routeToNode routes an endpoint of another node directly to that node, if it is on the link of the routers.
func (b *Border) routeToNode(e pipeline.Endpoint, d delta) {
	for _, p := range hostPrefixes(e) {
		node := netip.Addr{}
		if b.wanted != nil && b.wanted.Link.Contains(e.VTEP) {
			node = e.VTEP
		}
		b.rib.setNode(p, node, d)
	}
}

// Ports lists those of endpoints.
func (b *Border) Ports() []drivers.Port {
	return slices.DeleteFunc(b.NetworkDriver.Ports(), func(p drivers.Port) bool { return p.EndpointID == Interface })
}

func hostPrefixes(e pipeline.Endpoint) (list []netip.Prefix) {
	for _, a := range []netip.Addr{e.IPv4, e.IPv6} {
		if a.IsValid() {
			list = append(list, inet.Host(a))
		}
	}
	return list
}
