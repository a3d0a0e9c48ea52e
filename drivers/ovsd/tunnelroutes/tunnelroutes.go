// Package tunnelroutes gives an ovs-vswitchd the routes of its tunnels, where it reads none itself.
//
// The userspace datapath routes packets to other nodes by a table of ovs-vswitchd, which reads all routes of
// the system again whenever any link or route of the node changes. Until it has read them it has no routes to
// other nodes, and does not recognise packets from them. Packets that are looked up in that moment are dropped:
// pods that are added and removed would cost others packets. With --disable-system-route ovs-vswitchd reads no
// routes. Then this package sets those of the link with the tunnel address.
//
//	tunnelroutes.go  when the routes are checked
//	giver.go         the wanted routes, and the difference to the actual ones
//	table.go         ovs-vswitchd's own table
//	own.go           which of them the driver has set, for decommissioning the node
package tunnelroutes

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/rtwatch"
)

// firstPause is the pause before the first retry after a failure; each further one is longer, up to the time between
// audits.
const firstPause = 20 * time.Millisecond

// routesPause is how long changes of routes and addresses are collected: a router changes thousands at once.
const routesPause = 100 * time.Millisecond

// Config is the tunnels' configuration, and the functions to read and change node and switch.
type Config struct {
	Log           *logrus.Entry
	VTEP          netip.Addr // where tunnels begin and end
	AuditInterval time.Duration
	Control       vswitchd.Control
	At            netns.NsHandle                                                       // where the links of the switch are
	Link          func() (link netlink.Link, there bool, err error)                    // the one that has the address
	IsLocalPort   func(link string) bool                                               // of a bridge of the userspace datapath
	List          func(link netlink.Link, family int) (all []netlink.Route, err error) // the system's routes through a link
	Peers         func() []netip.Addr                                                  // tunnel addresses of other nodes
	Mine          func() bool                                                          // no other driver has the bridge: its routes would be that driver's
	ExternalIDs   func() map[string]string                                             // of the bridge's row
	Note          func(ctx context.Context, key, text string) error                    // changes one of them and waits until ExternalIDs has it
	News          func()                                                               // State or Failure has changed
}

// Routes is the known state of the switch's routes.
type Routes struct {
	config  Config
	asked   notify.Signal // it may be another ovs-vswitchd
	changed notify.Signal // addresses or routes have changed

	mu      sync.Mutex
	known   bool // whether the switch reads routes is known
	given   bool // it reads no routes itself
	problem error
}

// New makes an unknown state; Run begins to set the routes.
func New(config Config) *Routes {
	return &Routes{config: config, asked: notify.New(), changed: notify.New()}
}

// Look schedules a check of the routes: it may be another ovs-vswitchd.
func (t *Routes) Look() { t.asked.Send() }

// Needless records that there are no tunnels, or that ovs-vswitchd does not route them.
func (t *Routes) Needless() { t.learn(true, false, nil) }

// State reports whether the switch's routes are set by this package, and whether that is known.
func (t *Routes) State() (known, given bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known, t.given
}

// Failure returns why tunnels have no routes, or reach a node by none; nil if they do, or it is unknown.
func (t *Routes) Failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.problem
}

// learn stores a result, and calls News if it has changed.
func (t *Routes) learn(known, given bool, problem error) {
	t.mu.Lock()
	news := known != t.known || given != t.given || fmt.Sprint(problem) != fmt.Sprint(t.problem)
	t.known, t.given, t.problem = known, given, problem
	t.mu.Unlock()
	if news {
		t.config.News()
	}
}

// Run keeps the routes of the switch, if it reads none itself, until ctx is done.
func (t *Routes) Run(ctx context.Context) error {
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { t.watchRoutes(ctx) })
	giver := giver{Config: t.config}
	pause := retry.NewPacer(firstPause, t.config.AuditInterval)
	for {
		err := giver.reconcile(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.learn(giver.known, giver.gives, err)
		next := t.config.AuditInterval
		if err != nil || len(giver.refused) > 0 {
			next = pause.Next()
		} else {
			pause.Reset()
		}
		changed := t.changed
		if giver.known && !giver.gives { // the switch reads routes itself
			changed = nil
		}
		select {
		case <-changed:
		case <-t.asked:
		case <-time.After(next):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchRoutes signals changes until ctx is done.
func (t *Routes) watchRoutes(ctx context.Context) {
	later := func() {
		retry.Pause(ctx, routesPause)
		t.changed.Send()
	}
	_ = rtwatch.Watch(ctx, t.config.Log, t.config.At, later,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE) // ends with ctx
}
