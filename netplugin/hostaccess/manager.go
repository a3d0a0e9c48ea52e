package hostaccess

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// Datapath is the part of the agent that the manager uses.
type Datapath interface {
	HostAccess() (agent.HostAccess, error)
	HostChanged() <-chan struct{}
	PreparePort(ctx context.Context, epID string, podNetNS int) (drivers.Port, error)
	OutsideWaits(ctx context.Context) (bool, error)
	PrepareOutside(ctx context.Context) (drivers.Port, error)
	ServeHost(ctx context.Context, epID string, revision int64) (agent.Attachment, error)
	Detach(ctx context.Context, epID string) error
}

// Master is the part of netmaster's client that the manager uses.
type Master interface {
	CreateEndpoint(ctx context.Context, req mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, int64, error)
	DeleteEndpoint(ctx context.Context, req mastercfg.DeleteEndpointRequest) error
}

// Reports receives what a round finds out about the host.
type Reports interface {
	// TellTaken receives the ports of these on which processes of the host listen, too.
	TellTaken([]agent.TakenPort)
	// TellUnreached receives the pods of other tenants that the host does not reach.
	TellUnreached([]agent.UnreachedPod)
	// HostHas receives the addresses on the host's interfaces.
	HostHas([]netip.Addr)
}

// nobody ignores what is reported.
type nobody struct{}

func (nobody) TellTaken([]agent.TakenPort)        {}
func (nobody) TellUnreached([]agent.UnreachedPod) {}
func (nobody) HostHas([]netip.Addr)               {}

// Manager maintains the host's own interfaces.
type Manager struct {
	Config
	joined       map[string]string // id of an endpoint with a port -> its network
	rules        rules
	egress       egress
	translations translations  // when stale conntrack entries were last removed
	tunnels      optionalTable // drops the kernel's copies of tunnelled packets
	strangers    optionalTable // drops tunnelled packets of machines that are not nodes
	stores       stores
	storesAt     atomic.Pointer[[]netip.Addr] // addresses of stores, for other goroutines; nil: unknown
	closed       atomic.Pointer[Closed]       // the latest; nil: none yet
	own          own
	foreign      foreignPods   // the last ones
	touched      notify.Signal // set when another process has changed a managed object
	repaired     time.Time     // when the last round for that reason began
	problem      problem       // of the last round
}

// DefaultStateDir is the directory of the manager's state.
const DefaultStateDir = "/var/lib/contiv/host"

// Times of the manager.
const (
	auditEvery = 45 * time.Second // between two rounds when nothing has changed
	firstRetry = time.Second
	lastRetry  = time.Minute
	calmTime   = time.Second      // between two rounds because of changes by other processes
	stepTime   = 20 * time.Second // for one network
)

// New returns a manager; it has no effect before Run.
func New(c Config) *Manager {
	if c.Log == nil {
		c.Log = logrus.WithField("component", "hostaccess")
	}
	if c.Reports == nil {
		c.Reports = nobody{}
	}
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir
	}
	return &Manager{
		Config: c, joined: map[string]string{}, egress: egress{mayExist: true}, touched: notify.New(),
		tunnels:   optionalTable{rules{family: knftables.NetDevFamily}, true},
		strangers: optionalTable{rules{table: strangerTableName}, true},
	}
}

// Run maintains the interfaces until ctx ends. They remain: the host continues to use them.
func (m *Manager) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.own.watch(ctx, m.Log, m.touched.Send) })
	group.Go(func() error { return m.keep(ctx) })
	return group.Wait()
}

// keep runs look after each change, and every auditEvery.
func (m *Manager) keep(ctx context.Context) error {
	wait := retry.NewPacer(firstRetry, lastRetry)
	for {
		next := auditEvery
		err := m.look(ctx)
		if ctx.Err() == nil {
			m.problem.note(err, m.Log)
		}
		if err == nil {
			wait.Reset()
		} else {
			next = min(next, wait.Next())
		}
		timer := time.NewTimer(next)
		touched := m.touched
		if time.Since(m.repaired) < calmTime {
			touched = nil
			timer.Reset(min(next, calmTime))
		}
		select {
		case <-m.Datapath.HostChanged():
		case <-m.PortsMoved:
		case <-touched:
			m.repaired = time.Now()
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// round is one round of the manager: its steps, and their problems.
type round struct {
	ctx      context.Context
	problems []error
}

// step runs one step with a time limit, so that one network cannot delay the others.
func (r *round) step(what string, step func(context.Context) error) { _ = r.try(what, step) }

// try is step, and returns the problem.
func (r *round) try(what string, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.ctx, stepTime)
	defer cancel()
	err := step(ctx)
	if err != nil {
		err = fault.New(fault.KindOf(err), "%s: %w", what, err)
		r.problems = append(r.problems, err)
	}
	return err
}

// look runs one round: it reconciles interfaces, routes and rules with the store.
func (m *Manager) look(ctx context.Context) error {
	r := round{ctx: ctx, problems: m.reportAddresses()}
	access, err := m.Datapath.HostAccess()
	if err != nil {
		return nil // the agent reports what it waits for, and wakes this goroutine
	}
	m.own.follow(access.Balancers)
	r.step("tunnels of strangers", func(ctx context.Context) error { return m.reconcileStrangers(ctx, access) })
	m.leaveNetworks(&r, access) // before others are made: a new network may have the name of a removed one
	joining := access.Networks
	err = r.try("rules about infra networks", func(ctx context.Context) error { return m.closeFirst(ctx, access) })
	if err != nil && !fault.Is(err, fault.Unsupported) { // without nft the rules of before are unchanged
		joining = nil // without the rules, endpoints would reach the host's control ports there
	}
	machines := m.machines(access, m.stores.nodes)
	for _, n := range joining {
		r.step("infra network "+n.Network.ID, func(ctx context.Context) error { return m.join(ctx, n, machines) })
	}
	r.step("way out by the host", func(ctx context.Context) error { return m.reconcileOutside(ctx, access) })
	r.step("tunnels", m.keepTunnels)
	if !m.Netdev() { // a userspace datapath has its own connection tracker
		r.problems = append(r.problems, m.trackLiberally(liberalWindow, liberalReset))
	}
	r.step("settings", func(context.Context) error { // also while none has to be changed: a cleanup would need them
		_, err := recall(m.StateDir)
		return err
	})
	return errors.Join(r.problems...)
}

// leaveNetworks removes the host's endpoints in networks that are gone.
func (m *Manager) leaveNetworks(r *round, access agent.HostAccess) {
	wanted := map[string]bool{}
	for _, n := range access.Networks {
		wanted[n.EndpointID(m.HostLabel)] = true
	}
	for _, e := range access.Released {
		m.joined[e.ID] = e.NetID
	}
	for id, network := range m.joined {
		if !wanted[id] {
			r.step("leave network "+network, func(ctx context.Context) error { return m.removeEndpoint(ctx, id, network) })
		}
	}
}

// reportAddresses passes the host's addresses on.
func (m *Manager) reportAddresses() (problems []error) {
	here, err := Addresses()
	if err != nil {
		return []error{err}
	}
	m.Reports.HostHas(here)
	return nil
}

// machines returns the known addresses of the cluster's machines, sorted. Other addresses of a machine are
// excluded: they may be in infra networks, or shared by several machines, like that of a bridge for containers.
func (m *Manager) machines(access agent.HostAccess, stores []netip.Addr) []netip.Addr {
	all := slices.Concat(m.Closed.Nodes, stores, access.Reached, access.VTEPs)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// Machines returns addresses that the host must not reach by another managed interface, sorted. It returns an
// error while they are unknown. It is safe for concurrent use.
func (m *Manager) Machines() ([]netip.Addr, error) {
	access, err := m.Datapath.HostAccess()
	if err != nil {
		return nil, err
	}
	var stores []netip.Addr
	if known := m.storesAt.Load(); known != nil {
		stores = *known
	}
	return m.machines(access, stores), nil
}

// join makes the host's endpoint in a network, and its interface. Addresses and routes that would take over
// destinations that the host reaches by other interfaces are omitted (spared.go).
func (m *Manager) join(ctx context.Context, n agent.HostNetwork, machines []netip.Addr) error {
	id := n.EndpointID(m.HostLabel)
	if err := checkName(n.Network.NetworkName, outsideLink, m.RouterLink); err != nil {
		return err
	}
	var revision int64
	if n.Endpoint == nil {
		endpoint, at, err := m.Master.CreateEndpoint(ctx, mastercfg.CreateEndpointRequest{
			TenantName: n.Network.Tenant, NetworkName: n.Network.NetworkName, EndpointID: m.HostLabel,
			ConfigEP: mastercfg.ConfigEP{Container: m.HostLabel, Host: m.HostLabel},
		})
		if err != nil {
			return err
		}
		if endpoint.HomingHost != m.HostLabel {
			return fault.New(fault.Conflict, "endpoint %s lives on host %q", id, endpoint.HomingHost)
		}
		revision = at
	}
	m.joined[id] = n.Network.ID
	port, err := m.Datapath.PreparePort(ctx, id, 0)
	if err != nil {
		return err
	}
	if _, err := m.regain(port, n.Network.NetworkName); err != nil {
		return err
	}
	at, err := m.Datapath.ServeHost(ctx, id, revision)
	if err != nil {
		return err
	}
	want, err := interfaceOf(at, n)
	if err != nil {
		return err
	}
	want.mtu, want.checksumInSoftware = port.MTU, m.Netdev()
	want, taking := want.spared(machines)
	if len(want.addresses) == 0 {
		return taking
	}
	changed, err := want.ensure(port, &m.own)
	if changed {
		m.Log.WithFields(logrus.Fields{"interface": want.name, "addresses": want.addresses, "routes": len(want.routes)}).Info("the host's interface set right")
	}
	return errors.Join(taking, err)
}

// regain gives an interface of the host its name back, and reports whether somebody had changed it.
func (m *Manager) regain(port drivers.Port, name string) (changed bool, err error) {
	if changed, err = regain(port, name); changed {
		m.Log.WithField("interface", name).Warn("somebody had renamed the host's interface: it has its name again")
	}
	return changed, err
}

// removeEndpoint removes the host's endpoint in a deleted network. Its routes are removed with the interface.
func (m *Manager) removeEndpoint(ctx context.Context, id, network string) error {
	if err := m.Datapath.Detach(ctx, id); err != nil {
		return err
	}
	// It is irrelevant which dot separates network and tenant: joined they are the same id.
	name, tenant, _ := strings.Cut(network, ".")
	err := m.Master.DeleteEndpoint(ctx, mastercfg.DeleteEndpointRequest{TenantName: tenant, NetworkName: name, EndpointID: m.HostLabel, Host: m.HostLabel})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	delete(m.joined, id)
	m.Log.WithField("network", network).Info("left an infra network that is gone")
	return nil
}

// Problem returns the problem of the last round, or "".
func (m *Manager) Problem() string { return m.problem.String() }
