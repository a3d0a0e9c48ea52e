package ovsd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/rtwatch"
)

// The userspace datapath finds the way to other nodes in a table of ovs-vswitchd, which reads the routes of the system anew
// whenever any link or route of the node changes. Until it has read them it neither has a way nor knows what ends tunnels, and
// what is looked at in that moment is dropped: pods that come and go would cost others packets. With --disable-system-route
// it reads none. The routes of the link that has the tunnel address are then given to it here.

// routesPause is how long changes of routes and addresses are collected: a router changes thousands at once.
const routesPause = 100 * time.Millisecond

// tunnelRoutes is what is known of the switch's routes.
type tunnelRoutes struct {
	asked   notify.Signal // it may be another ovs-vswitchd
	changed notify.Signal // addresses or routes have changed

	mu      sync.Mutex
	known   bool // the switch has been asked
	given   bool // it reads no routes itself
	problem error
}

func newTunnelRoutes() *tunnelRoutes {
	return &tunnelRoutes{asked: notify.New(), changed: notify.New()}
}

// learn keeps what was found, and tells whether that is news.
func (t *tunnelRoutes) learn(known, given bool, problem error) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news = known != t.known || given != t.given || fmt.Sprint(problem) != fmt.Sprint(t.problem)
	t.known, t.given, t.problem = known, given, problem
	return news
}

// failure says why tunnels have no routes.
func (t *tunnelRoutes) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.problem
}

// trunk is the port that the bridge should have. Open vSwitch looks for the tunnel address among routes of the system, so where
// it reads none it sends from the address of the link instead.
func (d *Driver) trunk() trunk {
	want := d.config.trunk()
	d.tunnelRoutes.mu.Lock()
	known, given := d.tunnelRoutes.known, d.tunnelRoutes.given
	d.tunnelRoutes.mu.Unlock()
	if !known { // it stays as an agent before has made it
		have, there := d.db.trunk()
		given = there && have.link.Options["local_ip"] == ""
	}
	if given {
		delete(want.options, "local_ip")
	}
	return want
}

// keepTunnelRoutes keeps the routes of the switch, where it reads none itself.
func (d *Driver) keepTunnelRoutes(ctx context.Context) error {
	if len(d.config.Uplinks) > 0 || d.datapathType() != DatapathNetdev {
		d.tunnelRoutes.learn(true, false, nil)
		d.keeperDue.Send()
		<-ctx.Done()
		return ctx.Err()
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { d.watchRoutes(ctx) })
	giver := routeGiver{Driver: d}
	pause := retry.NewPacer(firstRedial, d.config.AuditInterval)
	for {
		err := giver.look(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.tunnelRoutes.learn(giver.known, giver.gives, err) {
			d.keeperDue.Send()
		}
		next := d.config.AuditInterval
		if err != nil || len(giver.refused) > 0 {
			next = pause.Next()
		} else {
			pause.Reset()
		}
		changed := d.tunnelRoutes.changed
		if giver.known && !giver.gives { // the switch looks itself
			changed = nil
		}
		select {
		case <-changed:
		case <-d.tunnelRoutes.asked:
		case <-time.After(next):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchRoutes tells of changes until ctx is done.
func (d *Driver) watchRoutes(ctx context.Context) {
	later := func() {
		retry.Pause(ctx, routesPause)
		d.tunnelRoutes.changed.Send()
	}
	_ = rtwatch.Watch(ctx, d.log, d.links.at(), later,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE) // ends with ctx
}
