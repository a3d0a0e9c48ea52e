package border

import (
	"context"
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
	"github.com/contiv/netplugin/ofnet/pipeline"
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
	Log       *logrus.Entry
}

// Border is a driver that knows routes.
type Border struct {
	drivers.NetworkDriver
	cfg     Config
	log     *logrus.Entry
	speaker *bgp.Speaker
	left    func() *saved // of an earlier run; nil: nothing of use
	wake    notify.Signal
	met     notify.Signal // the kernel has learned something of next hops

	unsaved  atomic.Bool // what is to be kept for the next run has changed
	keepNext time.Time   // when that may be done; the loop's
	kept     bool        // this run has done it; the loop's

	mu      sync.Mutex
	wanted  *agent.BGP      // nil: this node is no router
	cleared bool            // there is no interface, of an earlier run neither
	router  pipeline.Router // zero: not yet, or no more
	links   [2]netip.Prefix // of IPv4 and IPv6, in which routes lead to next hops by now
	told    bool            // by the agent, what is wanted
	started bool            // the driver has been given its first state
	rib     *rib
	local   map[pipeline.Key][]netip.Prefix    // what is announced of each object
	held    map[netip.Prefix]int               // for how many objects a prefix is announced
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
		NetworkDriver: cfg.Driver, cfg: cfg, log: cfg.Log, speaker: bgp.New(cfg.Speaker), wake: notify.New(), met: notify.New(),
		local: map[pipeline.Key][]netip.Prefix{}, held: map[netip.Prefix]int{}, remote: map[pipeline.Key]pipeline.Endpoint{},
	}
	b.rib, b.left = newRIB(), b.leftBehind()
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
	if !b.started && wanted != nil && isAt(wanted.Link) {
		b.recall(b.left())
	}
	b.wake.Send()
}

// Run runs the driver, the speaker and the border itself.
func (b *Border) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{b.NetworkDriver.Run, b.speaker.Run, b.loop, b.listen} {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// Update passes a change on, with what it means for routes.
func (b *Border) Update(c drivers.Change) {
	var known map[netip.Addr][6]byte // next hops of a first state, which are not to be missed
	if c.Replace {
		var err error
		if _, known, err = lookAround(); err != nil {
			b.log.WithError(err).Debug("next hops")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var changed []netip.Prefix
	routes := drivers.Change{}
	gone := slices.Clone(c.Remove)
	if c.Replace {
		for key := range b.local {
			gone = append(gone, key)
		}
		for key := range b.remote {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		changed = append(changed, b.drop(key, &routes)...)
	}
	for _, o := range c.Set {
		changed = append(changed, b.drop(o.Key(), &routes)...)
		changed = append(changed, b.hold(o.Key(), announced(o))...)
		if e, ok := o.(pipeline.Endpoint); ok && !e.Local && e.Encap == pipeline.VLAN && !e.Mode.Bridged() {
			b.remote[e.Key()] = e
			b.lead(e, &routes)
		}
	}
	if len(changed) > 0 {
		b.tell(changed)
	}
	if c.Replace {
		b.started = true
		if b.router.ID != "" && known != nil {
			b.meet(known, &routes)
		}
		routes = drivers.Change{Set: b.rib.all()}
		if b.router.ID != "" {
			routes.Set = append(routes.Set, b.router)
		}
	}
	routes = withoutDoubles(routes)
	c.Set, c.Remove = slices.Concat(c.Set, routes.Set), slices.Concat(c.Remove, routes.Remove)
	b.NetworkDriver.Update(c)
}

// tell has the speaker announce those of some prefixes that an object holds, and no others of them.
func (b *Border) tell(changed []netip.Prefix) {
	var announce, withdraw []netip.Prefix
	for _, p := range changed {
		if b.held[p] > 0 {
			announce = append(announce, p)
		} else {
			withdraw = append(withdraw, p)
		}
	}
	b.speaker.Announce(announce, withdraw)
	b.unsaved.Store(true)
}

// hold notes what is announced of an object, and returns it.
func (b *Border) hold(key pipeline.Key, prefixes []netip.Prefix) []netip.Prefix {
	if len(prefixes) > 0 {
		b.local[key] = prefixes
	}
	for _, p := range prefixes {
		b.held[p]++
	}
	return prefixes
}

// drop forgets an object and returns what was announced of it.
func (b *Border) drop(key pipeline.Key, c *drivers.Change) []netip.Prefix {
	if e, ok := b.remote[key]; ok {
		delete(b.remote, key)
		for _, p := range hostPrefixes(e) {
			b.rib.lead(p, netip.Addr{}, c)
		}
	}
	prefixes := b.local[key]
	delete(b.local, key)
	for _, p := range prefixes {
		if b.held[p]--; b.held[p] == 0 {
			delete(b.held, p)
		}
	}
	return prefixes
}

// leadToNeighbours leads to the routers that the node speaks with, and no more to others.
// It is called with the lock.
func (b *Border) leadToNeighbours(wanted *agent.BGP, c *drivers.Change) {
	former := b.neighbours
	b.neighbours = nil
	for _, n := range wanted.Neighbours {
		b.neighbours = append(b.neighbours, n.Address)
		b.rib.lead(hostPrefix(n.Address), n.Address, c)
	}
	for _, a := range former {
		if !slices.Contains(b.neighbours, a) {
			b.rib.lead(hostPrefix(a), netip.Addr{}, c)
		}
	}
}

// lead leads to an endpoint of another node without a detour, if there is such a way.
func (b *Border) lead(e pipeline.Endpoint, c *drivers.Change) {
	for _, p := range hostPrefixes(e) {
		node := netip.Addr{}
		if b.wanted != nil && b.wanted.Link.Contains(e.VTEP) {
			node = e.VTEP
		}
		b.rib.lead(p, node, c)
	}
}

// Ports lists those of endpoints.
func (b *Border) Ports() []drivers.Port {
	return slices.DeleteFunc(b.NetworkDriver.Ports(), func(p drivers.Port) bool { return p.EndpointID == Interface })
}

// announced are the addresses of an object that routers are told: those of an endpoint of this
// node, and those of a service that somebody here serves for who comes in by the uplink.
func announced(o pipeline.Object) (list []netip.Prefix) {
	switch o := o.(type) {
	case pipeline.Endpoint:
		if o.Local && o.Encap == pipeline.VLAN && !o.Mode.Bridged() {
			return hostPrefixes(o)
		}
	case pipeline.Service:
		for _, p := range o.Ports {
			at := hostPrefix(p.Address)
			if o.Encap == pipeline.VLAN && p.From&pipeline.FromOutside != 0 && len(p.Serving) > 0 && !slices.Contains(list, at) {
				list = append(list, at)
			}
		}
	}
	return list
}

func hostPrefixes(e pipeline.Endpoint) (list []netip.Prefix) {
	for _, a := range []netip.Addr{e.IPv4, e.IPv6} {
		if a.IsValid() {
			list = append(list, hostPrefix(a))
		}
	}
	return list
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
