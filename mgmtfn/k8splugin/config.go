package k8splugin

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/attachment"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/pending"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/utils/keylock"
)

// Master allocates addresses and keeps the endpoint records of the cluster.
type Master interface {
	// CreateEndpoint is idempotent by container. The revision is that of the
	// store in which the endpoint is visible.
	CreateEndpoint(ctx context.Context, r mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, int64, error)
	// DeleteEndpoint answers fault.NotFound for an endpoint that is not there.
	DeleteEndpoint(ctx context.Context, r mastercfg.DeleteEndpointRequest) error
}

// Datapath is this node's switch, as the agent runs it.
type Datapath interface {
	// Ready tells why containers cannot be attached at the moment. An error
	// with a method PodsAffected() bool says whether attached ones suffer, too.
	Ready() error
	// PreparePort makes the link and switch port of an endpoint the store
	// need not know yet, the container's end in the network namespace behind
	// the descriptor. It is idempotent.
	PreparePort(ctx context.Context, endpointID string, netns int) (drivers.Port, error)
	// Await returns when the endpoint of the store at revision or later is
	// known here, with its records and without a port.
	Await(ctx context.Context, endpointID string, revision int64) (Attachment, error)
	// Attach returns when the endpoint, as it is in the store at revision or
	// later, is programmed.
	Attach(ctx context.Context, endpointID string, revision int64) (Attachment, error)
	// Detach removes port, link and flows; an unknown endpoint is no error.
	Detach(ctx context.Context, endpointID string) error
	// Hold tells of a container that an earlier run attached: it is served
	// until Detach, whatever becomes of its records in the store.
	Hold(Attachment)
	// Unannounced lists the endpoints held that the store does not know.
	Unannounced() []string
	// Unclaimed lists the endpoints that the store has had on this node for
	// long, and nobody has held, with their ports.
	Unclaimed() []Attachment
}

// Attachment is a programmed endpoint, with its port, record and network.
type Attachment = agent.Attachment

// Mode is who runs the containers.
type Mode string

// Modes.
const (
	Kubernetes Mode = "kubernetes"
	CNI        Mode = "cni" // any other container runtime
)

// Config says where the server listens and whom it works with.
type Config struct {
	SocketPath string // default cniwire.DefaultSocket
	StateDir   string // default cniwire.DefaultStateDir
	Mode       Mode
	HostLabel  string // this node, in endpoint records
	Master     Master
	Datapath   Datapath
	Labels     labels.Source // default labels.Call

	// Netdev tells whether packets go through a userspace datapath, which
	// needs checksums made in software. Default: yes, which is always right,
	// if slower on a kernel datapath.
	Netdev func() bool
	// Ports lists the ports of the switch, for CHECK. Optional.
	Ports func() []drivers.Port
	// Reachable tells whether ADD could reach master and store, for STATUS. Optional.
	Reachable func(ctx context.Context) error

	Log    *logrus.Entry
	Limits Limits
}

// Limits are times and sizes; zero values get the defaults.
type Limits struct {
	Add         time.Duration // one ADD, undoing not included: 100 s, so that the program's 120 s are not exceeded
	Ready       time.Duration // how long an ADD waits for a datapath that is not ready: 4 s, so that it fails within 5
	Undo        time.Duration // how long a command tries to undo before it leaves that to the worker: 5 s
	Other       time.Duration // one CHECK or STATUS: 10 s
	RetryMin    time.Duration // between attempts of the worker: 500 ms, doubling
	RetryMax    time.Duration // up to 30 s
	PendingScan time.Duration // how often deletions queued on disk are looked for: 2 s
	Reconcile   time.Duration // how often the store is compared with the checkpoints: 2 s
	Adds        int           // ADDs carried out at a time: 64; as many wait for their turn
	Others      int           // commands other than ADD carried out at a time: 64; as many wait
	Connections int           // open at a time: 320, more than all that run and wait
	Request     time.Duration // for a client to send its request: 10 s
}

func (l *Limits) setDefaults() {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&l.Add, 100 * time.Second},
		{&l.Ready, 4 * time.Second},
		{&l.Undo, 5 * time.Second},
		{&l.Other, 10 * time.Second},
		{&l.RetryMin, 500 * time.Millisecond},
		{&l.RetryMax, 30 * time.Second},
		{&l.PendingScan, 2 * time.Second},
		{&l.Reconcile, 2 * time.Second},
		{&l.Request, 10 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	for _, n := range []struct {
		value    *int
		standard int
	}{{&l.Adds, 64}, {&l.Others, 64}, {&l.Connections, 320}} {
		if *n.value == 0 {
			*n.value = n.standard
		}
	}
}

// Server answers CNI commands.
type Server struct {
	Config
	store   *attachment.Store
	pending pending.Queue
	locks   keylock.Locks[cniwire.Attachment]
	adds    slots
	others  slots
	wake    chan struct{} // there is something to undo
}

// New reads the checkpoints of an earlier run and has the datapath hold the
// containers that are attached; nothing else is done about them before Run.
func New(c Config) (*Server, error) {
	if c.Master == nil || c.Datapath == nil || c.HostLabel == "" {
		return nil, fmt.Errorf("CNI server: master, datapath and host label are needed")
	}
	if c.Mode != Kubernetes && c.Mode != CNI {
		return nil, fmt.Errorf("CNI server: mode %q: want %s or %s", c.Mode, Kubernetes, CNI)
	}
	if c.SocketPath == "" {
		c.SocketPath = cniwire.DefaultSocket
	}
	if c.StateDir == "" {
		c.StateDir = cniwire.DefaultStateDir
	}
	if c.Labels == nil {
		c.Labels = labels.Call{}
	}
	if c.Netdev == nil {
		c.Netdev = func() bool { return true }
	}
	if c.Log == nil {
		c.Log = logrus.WithField("component", "cni")
	}
	c.Limits.setDefaults()
	store, problems, err := attachment.Open(c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("CNI server: %w", err)
	}
	for _, p := range problems {
		c.Log.WithError(p).Error("checkpoint set aside; its endpoint may have to be removed by hand")
	}
	for _, r := range store.Select(isReady) {
		c.Datapath.Hold(heldBy(&r))
	}
	return &Server{
		Config:  c,
		store:   store,
		pending: pending.Open(c.StateDir),
		adds:    newSlots(c.Limits.Adds),
		others:  newSlots(c.Limits.Others),
		wake:    make(chan struct{}, 1),
	}, nil
}
