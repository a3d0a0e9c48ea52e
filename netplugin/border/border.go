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

// Interface is the host's interface on the link of the external routers, and the id of its port.
const Interface = "inb01"

// DefaultStateDir is the directory of the routes file. It differs from that of the attachments, whose reader
// would take the file for a damaged attachment.
const DefaultStateDir = "/var/lib/contiv/border"

// Config of a Border.
type Config struct {
	Driver    drivers.NetworkDriver // of the bridge with the uplinks
	StateFile string                // where routes are saved; empty: in DefaultStateDir
	Speaker   bgp.Config
	Uplinks   []string                     // links of the host that are ports of the bridge
	Machines  func() ([]netip.Addr, error) // addresses of the cluster's other machines, sorted; nil: none are known
	Log       *logrus.Entry
}

// Border is a driver that adds routes.
type Border struct {
	drivers.NetworkDriver
	cfg     Config
	log     *logrus.Entry
	speaker *bgp.Speaker
	arp     *hostaccess.RouterARP
	left    func() *saved // state of an earlier run; nil: none of use
	wake    notify.Signal
	met     notify.Signal // the kernel's neighbour table has changed
	lingers *time.Timer   // a service in late has expired
	given   notify.Signal // the driver was given objects to announce once the switch has them

	unsaved  atomic.Bool // the state to save has changed
	keepNext time.Time   // earliest time of the next save; used by the loop only
	kept     bool        // this run has saved its state; used by the loop only
	versions string      // the last log message about IPv6 at the interface; used by the loop only
	unkept   bool        // the last save has failed; used by the loop only

	mu      sync.Mutex
	wanted  *agent.BGP      // nil: this node is not a BGP router
	cleared bool            // the interface does not exist, not even that of an earlier run
	router  pipeline.Router // zero: not configured
	links   [2]netip.Prefix // IPv4 and IPv6 subnets of the present next hops
	told    bool            // the agent has set the wanted configuration
	started bool            // the driver has been given its first state
	rib     *rib
	outer   *announcing
	late    map[pipeline.Key]lingering
	remote  map[pipeline.Key]pipeline.Endpoint // endpoints of other nodes
	problem string                             // why the router is not running

	neighbours []netip.Addr // neighbours with host routes
	recalled   bool         // the state of an earlier run has been restored
}

var (
	_ drivers.NetworkDriver = (*Border)(nil)
	_ agent.Border          = (*Border)(nil)
)

// New returns the border of a node. It does nothing before Configure.
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

// Configure sets the wanted BGP configuration; nil: none. Called before the first change, it makes the routes
// of an earlier run part of that change.
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

// Update passes a change to the driver, together with the changes of routes that follow from it.
func (b *Border) Update(c drivers.Change) {
	var known map[netip.Addr][6]byte // next hops for the first state, which would be missing in it
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
		b.passAnnouncements() // withdraw before the flows are removed
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

// leave removes the direct route to an endpoint of another node.
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

// routeToNeighbours adds host routes to the configured BGP neighbours,
// and removes those to former ones. The caller holds the lock.
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

// Ports lists the ports of endpoints.
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
