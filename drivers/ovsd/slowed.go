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

// A pod whose packets make very many datapath masks (masks.go) is slowed down: all its packets pass a meter before any table
// that could add a mask (pipeline/slowed.go). The meter cannot distinguish its ordinary packets, so they are limited, too.
// Therefore this is off unless the operator configures a number of masks.
//
// The state is in external_ids of the pod's interface row: on or off, and until when. The flows are computed from the row, like from
// the port's number, so an audit and a restarted agent compute the same flows.
//
// While a pod is slowed down, its behaviour cannot be measured, as few of its packets are looked up. So it is released after a time.
// If it offends again before as much time has passed, the next time is twice as long, an hour at most: a pod that
// never stops is released for one audit in an hour.

const (
	// slowTime is how long a port is slowed down at first, slowTimeMost the limit.
	slowTime     = 5 * time.Minute
	slowTimeMost = time.Hour
)

// slowing holds the configuration, and the pods. Only ports of pods are slowed down: packets at ports of the host come from other
// senders.
type slowing struct {
	from       int // number of masks from which a pod is slowed down; less than 1: none is
	time, most time.Duration

	mu   sync.Mutex
	pods map[string]struct{} // of this node, by id
}

func newSlowing(from int) slowing {
	return slowing{from: from, time: slowTime, most: slowTimeMost, pods: map[string]struct{}{}}
}

// replace updates the pods for an object that replaces another; either may be nil.
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

// slowdown is the state of an interface.
type slowdown struct {
	on     bool          // it is slowed down
	until  time.Time     // if on, when that ends; else when the last one ended
	length time.Duration // of this or the last slowdown; 0: none, or it is too long ago to count
}

func (s slowdown) String() string {
	if s.length == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d %d", map[bool]string{true: "on", false: "off"}[s.on], s.until.UnixMilli(), s.length.Milliseconds())
}

// slowdown returns the state of an interface; text that cannot be parsed counts as none.
func (i interfaceRow) slowdown() slowdown {
	var word string
	var until, length int64
	if _, err := fmt.Sscanf(i.ExternalIDs[idSlowed], "%s %d %d", &word, &until, &length); err != nil {
		return slowdown{}
	}
	return slowdown{word == "on", time.UnixMilli(until), time.Duration(length) * time.Millisecond}
}

// slowedPorts counts the ports of our bridge that are slowed down.
func (d *Driver) slowedPorts() (count int) {
	for _, a := range d.db.endpointPorts() {
		if a.link.slowdown().on {
			count++
		}
	}
	return count
}

// countsMasksByPort reports whether there are enough masks to count them by port.
func (d *Driver) countsMasksByPort(found masks) bool {
	return d.slowing.from > 0 && found.count >= d.slowing.from
}

// keepSlowed slows down the ports with too many masks, and releases those whose time is over.
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

// next returns the new state of a port in state is whose packets have made so many masks.
func (s *slowing) next(is slowdown, masks int, now time.Time) slowdown {
	over := now.After(is.until) || is.until.Sub(now) > is.length // the second: the clock has been set back
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

// noteSlowed writes the state to the row of a's interface. It returns true when our replica of the row has it; that update also
// notifies the programmer.
func (d *Driver) noteSlowed(ctx context.Context, a attached, is slowdown) bool {
	text := is.String()
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	if _, err := d.db.client.Transact(ctx, ovsdb.Mutate("Interface", ovsdb.Where("_uuid", a.link.UUID), setExternalID(idSlowed, text)...)); err != nil {
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
