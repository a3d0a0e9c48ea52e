package k8splugin

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/durable"
)

// Mode is the kind of container runtime.
type Mode string

// Modes.
const (
	Kubernetes Mode = "kubernetes"
	CNI        Mode = "cni" // any other container runtime
)

// Config is the configuration of a server.
type Config struct {
	SocketPath string // default cniwire.DefaultSocket
	StateDir   string // default cniwire.DefaultStateDir
	Mode       Mode
	HostLabel  string // name of this node in endpoint records
	Boot       string // boot id of this machine; default durable.Boot
	Master     Master
	Datapath   Datapath
	Labels     labels.Source // default labels.Call

	// Netdev reports whether packets pass through a userspace datapath, which needs checksums computed in software.
	// Default: true, which is always correct, if slower on a kernel datapath.
	Netdev func() bool
	// Ports lists the ports of the switch, for CHECK. Optional.
	Ports func() []drivers.Port
	// Reachable returns nil if ADD could reach master and store, for STATUS. Optional.
	Reachable func(ctx context.Context) error
	// HostPortsChanged is called when the result of HostPorts may have changed, AttachedChanged when that of Attached
	// may. Optional.
	HostPortsChanged, AttachedChanged func()
	// HoldsPort reports whether the node needs a port itself. Optional.
	HoldsPort func(mastercfg.HostPort) bool
	// TellPorts is called with the reason why the pod with a UID does not get its host ports; empty: it has them.
	// Optional.
	TellPorts func(uid, why string)
	// Recorded returns netmaster's record of a pod of this node, by UID. complete reports whether all records are
	// known. Optional.
	Recorded func(uid string) (pod mastercfg.K8sPod, there, complete bool)

	Log    *logrus.Entry
	Limits Limits
}

// Limits are times and sizes; zero values mean the defaults below.
type Limits struct {
	Add         time.Duration // one ADD, without its undo
	Ready       time.Duration // how long an ADD waits for a datapath that is not ready
	Undo        time.Duration // how long a command tries to undo before the worker takes over
	RetryMin    time.Duration // first pause between attempts of the worker; it doubles
	RetryMax    time.Duration // longest pause
	PendingScan time.Duration // how often the queue of deletions on disk is checked
	Reconcile   time.Duration // how often the store is compared with the checkpoints
	Beat        time.Duration // how often the heartbeat is touched
	Sweep       time.Duration // how often attachments without a namespace are searched for
	Connections int           // open connections
	Request     time.Duration // time for a client to send its request
}

const (
	addTime        = 100 * time.Second // the program waits 120 s
	addTimeOfPods  = 18 * time.Second  // kubelet retries after 30 s; containerd loads no new configuration while an ADD runs
	readyTime      = 4 * time.Second   // so that an ADD fails within 5 s
	undoTime       = 5 * time.Second
	mostUndos      = 2                // of an ADD: leftovers or conflicts first, and at the end its own attachment
	otherTime      = 10 * time.Second // one CHECK or STATUS
	retryFirst     = 500 * time.Millisecond
	retryMost      = 30 * time.Second
	scanEvery      = 2 * time.Second
	reconcileEvery = 2 * time.Second
	requestTime    = 10 * time.Second
	beatEvery      = 5 * time.Second
	sweepEvery     = time.Minute

	addsAtOnce     = 64  // concurrent ADDs; as many may wait
	asksAtOnce     = 16  // likewise STATUSes
	othersAtOnce   = 64  // likewise other commands
	maxConnections = 320 // more than all that run and wait
)

func (l *Limits) setDefaults(mode Mode) {
	add := addTime
	if mode == Kubernetes {
		add = addTimeOfPods
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&l.Add, add},
		{&l.Ready, readyTime},
		{&l.Undo, undoTime},
		{&l.RetryMin, retryFirst},
		{&l.RetryMax, retryMost},
		{&l.PendingScan, scanEvery},
		{&l.Reconcile, reconcileEvery},
		{&l.Request, requestTime},
		{&l.Beat, beatEvery},
		{&l.Sweep, sweepEvery},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if l.Connections == 0 {
		l.Connections = maxConnections
	}
}

// complete validates a configuration and sets the defaults.
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
	if c.Boot == "" {
		boot, err := durable.Boot()
		if err != nil {
			return fmt.Errorf("CNI server: %w", err)
		}
		c.Boot = boot
	}
	if c.Labels == nil {
		c.Labels = labels.Call{}
	}
	if c.Netdev == nil {
		c.Netdev = func() bool { return true }
	}
	if c.TellPorts == nil {
		c.TellPorts = func(string, string) {}
	}
	if c.HostPortsChanged == nil {
		c.HostPortsChanged = func() {}
	}
	if c.AttachedChanged == nil {
		c.AttachedChanged = func() {}
	}
	if c.HoldsPort == nil {
		c.HoldsPort = func(mastercfg.HostPort) bool { return false }
	}
	if c.Log == nil {
		c.Log = logrus.WithField("component", "cni")
	}
	c.Limits.setDefaults(c.Mode)
	return nil
}
