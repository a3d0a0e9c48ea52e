package k8splugin

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
)

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

// complete checks a configuration and fills in the defaults.
func (c *Config) complete() error {
	if c.Master == nil || c.Datapath == nil || c.HostLabel == "" {
		return fmt.Errorf("CNI server: master, datapath and host label are needed")
	}
	if c.Mode != Kubernetes && c.Mode != CNI {
		return fmt.Errorf("CNI server: mode %q: want %s or %s", c.Mode, Kubernetes, CNI)
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
	return nil
}
