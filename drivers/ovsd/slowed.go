package ovsd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A pod that makes very many masks (masks.go) is slowed down: all that it sends passes a meter before anything is looked at
// that could make a mask (pipeline/slowed.go). Nothing tells its other packets from those, so they are few as well: which is why
// nobody is where the operator has not said from how many masks on.
//
// The row of its interface says so, and until when. The flows follow from the row as they follow from the port's number, so
// that they are the same to an audit and to an agent that starts.
//
// Whether it goes on nobody sees, as few of its packets are looked up. So it is freed after a time, and if it offends again
// before as much time has passed, the next one is twice as long: a pod that never stops is freed for one audit in an hour.

const (
	// slowTime is how long a port is slowed down at first, slowTimeMost at most.
	slowTime     = 5 * time.Minute
	slowTimeMost = time.Hour
)

// slowing is what is known for slowing ports down. Pods alone are: by the ports of hosts comes what others send.
type slowing struct {
	from       int // masks; less than 1: nobody is slowed down
	time, most time.Duration

	mu   sync.Mutex
	pods map[string]struct{} // of this node, by id
}

func newSlowing(from int) slowing {
	return slowing{from: from, time: slowTime, most: slowTimeMost, pods: map[string]struct{}{}}
}

// replace takes over an object in the place of another one; either may be nil.
func (s *slowing) replace(old, now pipeline.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, was := old.(pipeline.Endpoint); was {
		delete(s.pods, e.ID)
	}
	if e, is := now.(pipeline.Endpoint); is && e.Local && !e.Host {
		s.pods[e.ID] = struct{}{}
	}
}

func (s *slowing) isPod(endpointID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.pods[endpointID]
	return is
}

// slowdown is what the row of an interface says of it.
type slowdown struct {
	on     bool          // it is slowed down
	until  time.Time     // when that ends; it has ended then, if it is not on
	length time.Duration // of it; 0: it has never been, or that counts no more
}

func (s slowdown) String() string {
	if s.length == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d %d", map[bool]string{true: "on", false: "off"}[s.on], s.until.UnixMilli(), s.length.Milliseconds())
}

// slowdown is that of a port. What nobody understands was none.
func (i interfaceRow) slowdown() slowdown {
	var word string
	var until, length int64
	if _, err := fmt.Sscanf(i.ExternalIDs[idSlowed], "%s %d %d", &word, &until, &length); err != nil {
		return slowdown{}
	}
	return slowdown{word == "on", time.UnixMilli(until), time.Duration(length) * time.Millisecond}
}

// slowedPorts is how many of our bridge there are.
func (d *Driver) slowedPorts() (count int) {
	for _, a := range d.db.endpointPorts() {
		if a.link.slowdown().on {
			count++
		}
	}
	return count
}

// looksForWhom tells whether so many masks may be an offence.
func (d *Driver) looksForWhom(found masks) bool {
	return d.slowing.from > 0 && found.count >= d.slowing.from
}

// keepSlowed slows those ports down that have made very many masks, and frees those whose time is over.
func (d *Driver) keepSlowed(ctx context.Context, found masks) {
	now := time.Now()
	for _, a := range d.db.endpointPorts() {
		is, count := a.link.slowdown(), found.of[a.link.Name]
		log := d.log.WithField("endpoint", a.link.endpoint()).WithField("port", a.link.Name)
		if !d.slowing.isPod(a.link.endpoint()) {
			count = 0
		}
		switch next := d.slowing.next(is, count, now); {
		case next == is:
		case !d.noteSlowed(ctx, a, next):
		case next.on:
			log.Warnf("slowed down for %s: the datapath looks up what it sends by %d masks, as it may send headers of all kinds", next.length, count)
		case is.on:
			log.Info("not slowed down any more")
		}
	}
}

// next is what a port's slowdown becomes whose packets have so many masks.
func (s *slowing) next(is slowdown, masks int, now time.Time) slowdown {
	over := now.After(is.until) || is.until.Sub(now) > is.length // or the clock has been set back
	switch {
	case s.from < 1:
		return slowdown{}
	case is.on && over:
		return slowdown{false, now, is.length}
	case is.on:
		return is
	case masks >= s.from:
		length := s.time
		if is.length > 0 {
			length = min(2*is.length, s.most)
		}
		return slowdown{true, now.Add(length), length}
	case now.Sub(is.until) > is.length:
		return slowdown{}
	}
	return is
}

// noteSlowed writes it. It tells whether our copy of the row says so, too, by which the programmer hears of it.
func (d *Driver) noteSlowed(ctx context.Context, a attached, is slowdown) bool {
	text := is.String()
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	if _, err := d.db.client.Transact(ctx, ovsdb.Mutate("Interface", ovsdb.Where("_uuid", a.link.UUID), noted(idSlowed, text)...)); err != nil {
		d.log.WithError(err).WithField("port", a.link.Name).Warn("whether its port is slowed down is not written")
		return false
	}
	return d.db.client.Wait(ctx, func() (bool, error) {
		now, there := d.db.interfaces.Get(a.link.UUID)
		return !there || now.ExternalIDs[idSlowed] == text, nil
	}) == nil
}

var slowedDesc = prometheus.NewDesc("netplugin_slowed_endpoints",
	"Endpoints of which everything that they send is limited, as the datapath looked it up by very many masks.", []string{"bridge"}, nil)
