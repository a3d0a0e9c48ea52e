package border

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Times of the loop.
const (
	lookInterval = 2 * time.Second        // between checks of the interface and the next hops
	workPause    = 100 * time.Millisecond // after changes of routes: limits the cost of flapping
	portionWait  = time.Second            // for the switch to program a portion of routes
	portTimeout  = 10 * time.Second
	leaveTimeout = 3 * time.Second // for neighbours to learn that the session has ended
)

// portion is how many changes of routes are applied at a time. They keep the switch busy for a fraction of a
// second, most of which fewer would need as well; other changes go between portions.
const portion = 10_000

// loop maintains the interface, configures the speaker, and applies the routes that the speaker learns.
func (b *Border) loop(ctx context.Context) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	b.resumeSpeaking()
	resting, changed := false, false
	for {
		everything := false
		select {
		case <-ctx.Done():
			b.save()
			return ctx.Err()
		case <-b.wake:
			b.reconcile(ctx)
		case <-look.C:
			b.reconcile(ctx)
			everything = true
			b.saveRoutes()
			b.touchSaved()
		case <-b.lingers.C:
			b.stopServing(time.Now())
		case <-b.met:
			changed = true
		case <-b.speaker.News():
			changed = true
			b.unsaved.Store(true)
		case <-pause.C:
			resting = false
			b.saveRoutes()
		}
		if everything || changed && !resting {
			rest := b.takeIn(ctx, everything)
			changed, resting = rest < workPause, true
			pause.Reset(rest)
		}
	}
}

// reconcile applies the wanted configuration to interface and speaker.
func (b *Border) reconcile(ctx context.Context) {
	b.mu.Lock()
	wanted, started := b.wanted, b.started
	b.mu.Unlock()
	if !started {
		return // the driver has no first state yet
	}
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	b.note(b.applyRouter(ctx, wanted))
}

// applyRouter makes the node the configured router; nil: no router.
func (b *Border) applyRouter(ctx context.Context, wanted *agent.BGP) error {
	b.mu.Lock()
	another := b.router.ID != "" && (wanted == nil || b.router != routerOf(wanted))
	b.mu.Unlock()
	if wanted == nil || another {
		if err := b.removeRouter(ctx); wanted == nil || err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.cleared = false
	b.mu.Unlock()
	// Before the interface has the address: a router keeps a wrong MAC for it as long as that answers. If the
	// kernel does not support this, the sysctls of the interfaces remain.
	guarded := b.arp.Keep(ctx, wanted.Link.Addr(), Interface)
	if err := b.ensureInterface(ctx, wanted); err != nil {
		return err
	}
	b.open(wanted)
	return guarded
}

// open makes the node a router, once its interface exists.
func (b *Border) open(wanted *agent.BGP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	router, links := routerOf(wanted), linksOf(wanted)
	if b.router != router || b.links != links {
		b.router, b.links = router, links
		b.speaker.Repeat() // another link has other next hops; also resumes neighbours that had not noticed the silence
		d := delta{}
		d.set(router)
		for _, e := range b.remote {
			b.routeToNode(e, d)
		}
		b.NetworkDriver.Update(d.change())
	}
	b.speaker.Configure(speakerSettings(wanted))
	d := delta{}
	b.routeToNeighbours(wanted, d)
	b.passDelta(d)
}

// speakerSettings converts the configuration to settings of the BGP speaker.
func speakerSettings(wanted *agent.BGP) *bgp.Settings {
	settings := &bgp.Settings{
		AS: wanted.AS, Router: wanted.Link.Addr(), Router6: wanted.Link6.Addr(), NextHop6: wanted.Link6.Addr(),
		Neighbours: wanted.Neighbours,
	}
	if !settings.NextHop6.IsValid() {
		settings.NextHop6 = routerOf(wanted).LinkLocal()
	}
	return settings
}

// removeRouter ends all BGP sessions and then removes the interface, whose address the neighbours need until
// they have learned of the end. It also removes the interface of an earlier run.
func (b *Border) removeRouter(ctx context.Context) error {
	b.mu.Lock()
	router, cleared := b.router, b.cleared
	b.mu.Unlock()
	leaving, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := b.speaker.Silence(leaving); err != nil {
		b.log.WithError(err).Warn("BGP neighbours may keep the routes of this node for their hold time")
	}
	if cleared {
		return nil
	}
	if err := b.removeInterface(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleared = true
	if router.ID == "" {
		return nil
	}
	change := drivers.Change{Remove: []pipeline.Key{router.Key()}}
	for _, o := range b.rib.all() {
		change.Remove = append(change.Remove, o.Key())
	}
	b.router, b.rib, b.neighbours = pipeline.Router{}, newRIB(), nil
	b.NetworkDriver.Update(change)
	return nil
}

// takeIn updates routes and next hops, one portion at a time; resolved next hops are verified only if
// everything is set. It returns the pause until the next call: with more to apply, as long as this call took
// before waiting for the switch; otherwise workPause.
func (b *Border) takeIn(ctx context.Context, everything bool) (rest time.Duration) {
	begun := time.Now()
	link, known, err := readNeighbours()
	problems := []error{err}
	ask, more := b.takeChanges(link != nil && err == nil, known, everything)
	for _, a := range ask {
		problems = append(problems, solicit(link, a))
	}
	if err := errors.Join(problems...); err != nil {
		b.log.WithError(err).Debug("next hops")
	}
	if !more {
		return workPause
	}
	rest = min(time.Since(begun), workPause-1)
	waiting, cancel := context.WithTimeout(ctx, portionWait)
	defer cancel()
	if err := b.NetworkDriver.Sync(waiting); err != nil {
		b.log.WithError(err).Debug("a portion of routes is not in the switch yet")
	}
	return rest
}

// takeChanges is the part of takeIn under the lock; looked reports whether known is valid. It returns the next
// hops to solicit, and whether more changes of routes are waiting.
func (b *Border) takeChanges(looked bool, known map[netip.Addr][6]byte, everything bool) (ask []netip.Addr, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := delta{}
	more = b.learn(portion, d)
	if looked && b.router.ID != "" {
		if ask = b.updateNextHops(known, d); everything {
			ask = slices.Collect(maps.Keys(b.rib.users))
		}
	}
	b.passDelta(d)
	return ask, more
}

// learn applies at most so many changes of routes, and reports whether there are more. The caller holds the lock.
func (b *Border) learn(most int, d delta) (more bool) {
	changes, more := b.speaker.Changes(most)
	for _, c := range changes {
		b.rib.learn(c.Prefix, b.onLink(c.NextHops), d)
	}
	return more
}

// passDelta passes changes to the driver, once it has its first state.
func (b *Border) passDelta(d delta) {
	if b.started && len(d) > 0 {
		b.NetworkDriver.Update(d.change())
	}
}

// note records why the node is not the configured router, and logs it once.
func (b *Border) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	b.mu.Lock()
	fresh := text != b.problem
	b.problem = text
	b.mu.Unlock()
	if fresh && err != nil {
		b.log.WithError(err).Warn("the node is not the router yet that is wanted, or none")
	}
}
