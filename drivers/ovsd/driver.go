// Package ovsd drives Open vSwitch: it makes one bridge match the objects that the agent wants, and keeps it so.
//
// Two parts of the switch are reconciled, each by one goroutine that reads the actual state, compares it with
// the wanted state, and writes the difference:
//
//	             OVSDB (db.sock)                      OpenFlow (<bridge>.mgmt)
//	+-------------------------------------+   +-------------------------------------+
//	| keeper: bridge, trunk, and the      |   | programmer: flows, groups, meters   |
//	|   ports of our links                |   |   objects + port numbers -> books   |
//	| AddPort, RemovePort: links, ports   |   |   books - switch -> bundles         |
//	+------------------+------------------+   +------------------^------------------+
//	                   |  port numbers                           |
//	                   +-----------------------------------------+
//
// Nothing is done because of an event. An event (a change from the agent, a changed row, a new connection, the
// timer of the audit) only wakes the goroutine, which then checks what may differ. Starting, restarting and
// repairing are therefore the same code:
//
//   - The agent restarts, or another version of it starts: the switch still has its flows. They are compared
//     with the first complete set of objects and the difference is written; if nothing has changed, nothing
//     is. Until there is that set, nothing is written at all.
//   - ovs-vswitchd restarts: the switch comes back empty, and the difference is everything. Ports request
//     their former numbers.
//   - Another program changes flows: an audit finds the difference. The bridge is the driver's alone, so flows
//     of others are removed as well, except two kinds: those with a timeout, as an operator's experiment
//     should have; and those that the driver cannot parse, which are counted in the status. Other bridges are
//     never changed.
//   - Another program changes or removes rows: the keeper is notified and corrects them (keeper.go). Some
//     changes of a bridge make ovs-vswitchd delete its flows; then they are read again.
//
// Parts of the driver are packages of their own, below this one. None uses rows or links directly; a Config
// gives each functions to read and change them:
//
//	programmer    flows, groups, meters (programmed.go)
//	zones         each tenant's part of the datapath's connections (limited.go)
//	tunnelroutes  an ovs-vswitchd that reads no routes of its node is given those of its tunnels (routed.go)
//	vswitchd      the control socket of ovs-vswitchd (asked.go)
//
// Packets that flows send to the agent, and those that it sends, have a connection of their own (packets.go).
//
// There is one driver for a bridge: it holds a lock of the database, and a second one waits until the first has ended.
//
// Endpoint ports are veth pairs made here, because number, names, link and row belong together (ports.go). The link is
// permanent: its alias is the endpoint's id, and the keeper recreates its port whenever the rows are lost.
package ovsd

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd/programmer"
	"github.com/contiv/netplugin/drivers/ovsd/tunnelroutes"
	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
	"github.com/contiv/netplugin/drivers/ovsd/zones"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/keylock"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/ports"
)

// Defaults of Config.
const (
	DefaultRunDir        = "/var/run/openvswitch"
	DefaultBridge        = "contivVxlanBridge"
	DefaultUplinkBridge  = "contivVlanBridge"
	DefaultAuditInterval = 45 * time.Second
)

// Pauses between attempts to reach the switch, which is local: a restart of ovs-vswitchd is short,
// and packets are lost meanwhile.
const (
	firstRedial = 20 * time.Millisecond
	lastRedial  = time.Second
)

// Values of Config.Datapath.
const (
	DatapathAuto   = "auto"          // the bridge's own; a new one gets the kernel's, where it has one
	DatapathSystem = vswitchd.System // in the kernel
	DatapathNetdev = vswitchd.Netdev // in ovs-vswitchd
)

// Config is the configuration of the driver.
type Config struct {
	RunDir        string     // where ovs-vswitchd and ovsdb-server have their sockets
	Bridge        string     // the bridge to make and to own
	Uplinks       []string   // links to external VLANs, which package uplink keeps; none: the bridge has a tunnel
	VTEP          netip.Addr // tunnel: the local end
	VXLANPort     uint16     // tunnel
	Datapath      string
	AuditInterval time.Duration   // how often the switch is compared with the book
	NetNS         *netns.NsHandle // where the switch and its links are; nil: the process's own
	Names         bool            // there is a name server on the node
	NoSizeChecks  bool            // packet sizes are not compared, even if the switch can
	SlowFrom      int             // masks of an endpoint's packets from which it is slowed down; 0: never
	ZoneLimit     int             // connections in a zone of the connection tracker; 0: if there are several tenants, a part of the datapath's limit
	Tenants       *zones.Tenants  // of all bridges of the node; nil: there is no other bridge
	NamesNetNS    string          // name of its network namespace; empty: the usual one
	Log           *logrus.Entry
}

// Driver implements drivers.NetworkDriver.
type Driver struct {
	config  Config
	log     *logrus.Entry
	links   *links
	db      *database
	numbers numbers
	busy    keylock.Locks[string]
	calls   calls
	ready   chan struct{} // closed when bridge and sockets are there for the first time

	peers        *peers
	tunnelRoutes *tunnelroutes.Routes
	zones        *zones.Bridge
	programmer   *programmer.Programmer

	masks     atomic.Int64 // of the datapath, as last counted; or unknownMasks
	manyMasks int          // from which number they are logged
	slowing   slowing

	keeperDue notify.Signal // rows have changed, or a call has ended that excluded the keeper
	flowsLost notify.Signal // to the programmer: the switch may have deleted its flows

	connections chan programmer.Switch
	packets     *packets
	names       *namesPlace
	askers      askers

	mu         sync.Mutex
	sw         *openflow.Conn // the last connection; nil: none yet
	status     drivers.Status // as last reported by the programmer
	keeperFail string         // last failure to keep the bridge
}

var (
	_ drivers.NetworkDriver = (*Driver)(nil)
	_ drivers.PacketBus     = (*Driver)(nil)
)

// New makes a driver; Run starts it.
func New(config Config) (*Driver, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	d := &Driver{
		config: config, log: config.Log, ready: make(chan struct{}), keeperDue: notify.New(), flowsLost: notify.New(),
		connections: make(chan programmer.Switch), peers: newPeers(), manyMasks: manyMasks,
		slowing: newSlowing(config.SlowFrom), packets: newPackets(), names: newNamesPlace(),
	}
	var err error
	if d.links, err = newLinks(config.NetNS, drivers.LinkGroup(config.encap())); err != nil {
		return nil, err
	}
	d.db, err = newDatabase(config, func() {
		d.programmer.Wake()
		d.keeperDue.Send()
	})
	if err != nil {
		d.links.close()
		return nil, err
	}
	d.tunnelRoutes = tunnelroutes.New(d.routed())
	d.zones = config.Tenants.Add(d.limited())
	d.programmer = programmer.New(d.programmed())
	d.status = drivers.Status{Bridge: config.Bridge}
	d.masks.Store(unknownMasks)
	return d, nil
}

func (c *Config) complete() error {
	if c.RunDir == "" {
		c.RunDir = DefaultRunDir
	}
	if c.Bridge == "" {
		if c.Bridge = DefaultBridge; len(c.Uplinks) > 0 {
			c.Bridge = DefaultUplinkBridge
		}
	}
	if c.VXLANPort == 0 {
		c.VXLANPort = ports.VXLAN
	}
	if c.Datapath == "" {
		c.Datapath = DatapathAuto
	}
	if c.Tenants == nil {
		c.Tenants = &zones.Tenants{}
	}
	if c.AuditInterval <= 0 {
		c.AuditInterval = DefaultAuditInterval
	}
	if c.NamesNetNS == "" {
		c.NamesNetNS = DefaultNamesNetNS(c.encap())
	}
	if c.Log == nil {
		c.Log = logrus.WithField("component", "ovsd")
	}
	if datapaths := []string{DatapathAuto, DatapathSystem, DatapathNetdev}; !slices.Contains(datapaths, c.Datapath) {
		return fault.New(fault.Invalid, "datapath %q: %s expected", c.Datapath, strings.Join(datapaths, ", "))
	}
	if len(c.Uplinks) == 0 && !c.VTEP.IsValid() {
		return fault.New(fault.Invalid, "ovs driver of bridge %s: tunnel address is missing", c.Bridge)
	}
	return nil
}

// Run reconciles the switch until ctx is done. Flows and ports stay. A driver runs once.
func (d *Driver) Run(ctx context.Context) error {
	defer d.links.close()
	// Calls in progress need the database to undo what they have begun.
	databaseCtx, stopDatabase := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.db.client.Run(databaseCtx) })
	group.Go(func() error {
		defer stopDatabase()
		<-ctx.Done()
		d.calls.close()
		return ctx.Err()
	})
	group.Go(func() error { return d.keep(ctx) })
	// Before there is a bridge, there is no socket to dial.
	group.Go(func() error { return d.whenReady(ctx, d.connect) })
	group.Go(func() error { return d.whenReady(ctx, d.exchangePackets) })
	// The programmer accepts changes from the start, so that they do not pile up.
	group.Go(func() error { return d.programmer.Run(ctx) })
	group.Go(func() error { return d.whenReady(ctx, d.solicit) })
	group.Go(func() error { return d.whenReady(ctx, d.keepTunnelRoutes) })
	group.Go(func() error { return d.whenReady(ctx, d.zones.Run) })
	group.Go(func() error { return d.whenReady(ctx, d.watchMasks) })
	return group.Wait()
}

func (d *Driver) whenReady(ctx context.Context, work func(context.Context) error) error {
	if err := d.waitReady(ctx); err != nil {
		return err
	}
	return work(ctx)
}

func (d *Driver) waitReady(ctx context.Context) error {
	select {
	case <-d.ready:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "bridge %s: not ready: %w", d.config.Bridge, context.Cause(ctx))
	}
}

// connect keeps an OpenFlow connection and passes each one to the programmer.
func (d *Driver) connect(ctx context.Context) error {
	return d.keepConnected(ctx, nil, func(ctx context.Context, conn *openflow.Conn) error {
		// Before any flow of a policy is there.
		if err := conn.Send(ctx, openflow.SetConfig{Flags: openflow.FragmentsHavePorts}); err != nil {
			return err
		}
		d.tunnelRoutes.Look() // it may be another ovs-vswitchd
		d.mu.Lock()
		d.sw = conn
		d.mu.Unlock()
		select {
		case d.connections <- conn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// keepConnected keeps a connection to the bridge.
func (d *Driver) keepConnected(ctx context.Context, onEvent func(openflow.Message), onConnect func(context.Context, *openflow.Conn) error) error {
	// The socket is there once ovs-vswitchd has seen the bridge.
	if err := d.db.client.Wait(ctx, func() (bool, error) { return d.db.seen(), nil }); err != nil {
		return err
	}
	client := openflow.Client{
		Target:      d.config.openflowTarget(),
		Options:     openflow.Options{Log: d.log, OnEvent: onEvent},
		OnConnect:   onConnect,
		FirstRedial: firstRedial,
		LastRedial:  lastRedial,
	}
	return client.Run(ctx)
}

// solicit keeps the userspace datapath's neighbours resolved.
func (d *Driver) solicit(ctx context.Context) error {
	if d.datapathType() != DatapathNetdev {
		<-ctx.Done() // the kernel resolves its neighbours itself
		return ctx.Err()
	}
	return d.peers.run(ctx, d.links.solicit, d.log)
}

// Status returns the driver's status. It never blocks.
func (d *Driver) Status() drivers.Status {
	ports := len(d.db.endpointPorts())
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	s.Ports, s.PortAdded = ports, d.db.portAdded.Load()
	s.Connected = s.Connected && d.db.client.Connected()
	s.InSync = s.InSync && s.Connected && d.programmer.Settled()
	if s.LastError == "" {
		s.LastError = d.keeperFail
	}
	return s
}

// target of the database's socket.
func (c Config) ovsdbTarget() string { return "unix:" + filepath.Join(c.RunDir, "db.sock") }

// target of the bridge's management socket, on which ovs-vswitchd listens
// whatever its controllers are.
func (c Config) openflowTarget() string {
	return "unix:" + filepath.Join(c.RunDir, fmt.Sprintf("%s.mgmt", c.Bridge))
}
