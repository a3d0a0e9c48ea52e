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
	lookInterval = 2 * time.Second        // between two looks at the interface and the next hops
	workPause    = 100 * time.Millisecond // after changes of routes: flapping costs so much and no more
	portTimeout  = 10 * time.Second
)

// loop keeps the interface, tells the speaker, and takes in what it learns.
func (b *Border) loop(ctx context.Context) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	b.resume()
	resting, changed := false, false
	for {
		everything := false
		select {
		case <-ctx.Done():
			b.save()
			return ctx.Err()
		case <-b.wake:
			b.settle(ctx)
		case <-look.C:
			b.settle(ctx)
			everything = true
			b.keep()
			b.keepYoung()
		case <-b.lingers.C:
			b.stopServing(time.Now())
		case <-b.met:
			changed = true
		case <-b.speaker.News():
			changed = true
			b.unsaved.Store(true)
		case <-pause.C:
			resting = false
			b.keep()
		}
		if everything || changed && !resting {
			b.takeIn(everything)
			changed, resting = false, true
			pause.Reset(workPause)
		}
	}
}

// settle makes the interface and the speaker what is wanted.
func (b *Border) settle(ctx context.Context) {
	b.mu.Lock()
	wanted, started := b.wanted, b.started
	b.mu.Unlock()
	if !started {
		return // the driver waits for its first state
	}
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	b.note(b.become(ctx, wanted))
}

// become makes the node the router that is wanted; nil: none.
func (b *Border) become(ctx context.Context, wanted *agent.BGP) error {
	b.mu.Lock()
	another := b.router.ID != "" && (wanted == nil || b.router != routerOf(wanted))
	b.mu.Unlock()
	if wanted == nil || another {
		if err := b.retire(ctx); wanted == nil || err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.cleared = false
	b.mu.Unlock()
	if err := b.ensureInterface(ctx, wanted); err != nil {
		return err
	}
	b.open(wanted)
	return nil
}

// open makes the node a router: its interface is there.
func (b *Border) open(wanted *agent.BGP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	router, links := routerOf(wanted), linksOf(wanted)
	if b.router != router || b.links != links {
		b.router, b.links = router, links
		b.speaker.Repeat() // another link has other next hops, and it goes on where it has not noticed that it was silenced
		change := drivers.Change{Set: []pipeline.Object{router}}
		for _, e := range b.remote {
			b.lead(e, &change)
		}
		b.NetworkDriver.Update(withoutDoubles(change))
	}
	b.speaker.Configure(speaking(wanted))
	change := drivers.Change{}
	b.leadToNeighbours(wanted, &change)
	b.give(change)
}

// speaking is what the speaker is told.
func speaking(wanted *agent.BGP) *bgp.Settings {
	settings := &bgp.Settings{AS: wanted.AS, Router: wanted.Link.Addr(), Router6: wanted.Link6.Addr(), NextHop6: wanted.Link6.Addr(), Neighbours: wanted.Neighbours}
	if !settings.NextHop6.IsValid() {
		settings.NextHop6 = routerOf(wanted).LinkLocal()
	}
	return settings
}

// retire makes the node a router no more, or sees to it that nothing is left of an
// earlier run that was one.
func (b *Border) retire(ctx context.Context) error {
	b.mu.Lock()
	router, cleared := b.router, b.cleared
	b.mu.Unlock()
	b.speaker.Configure(nil)
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

// takeIn brings routes and next hops up to date; next hops that are known are asked
// only if everything is looked at.
func (b *Border) takeIn(everything bool) {
	link, known, err := lookAround()
	problems := []error{err}
	for _, a := range b.takeChanges(link != nil && err == nil, known, everything) {
		problems = append(problems, solicit(link, a))
	}
	if err := errors.Join(problems...); err != nil {
		b.log.WithError(err).Debug("next hops")
	}
}

// takeChanges is the part of takeIn with the lock; looked says that known is true. It
// returns the next hops to ask for.
func (b *Border) takeChanges(looked bool, known map[netip.Addr][6]byte, everything bool) (ask []netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var change drivers.Change
	for _, c := range b.speaker.Changes() {
		b.rib.learn(c.Prefix, b.onLink(c.NextHops), &change)
	}
	if looked && b.router.ID != "" {
		if ask = b.meet(known, &change); everything {
			ask = slices.Collect(maps.Keys(b.rib.users))
		}
	}
	b.give(change)
	return ask
}

// give gives the driver what has changed, once it has its first state.
func (b *Border) give(c drivers.Change) {
	if b.started && len(c.Set)+len(c.Remove) > 0 {
		b.NetworkDriver.Update(withoutDoubles(c))
	}
}

// withoutDoubles keeps of each object the last word. The agent waits for it, and a neighbour that goes takes all its routes with it.
func withoutDoubles(c drivers.Change) drivers.Change {
	last := map[pipeline.Key]pipeline.Object{} // nil: removed
	for _, key := range c.Remove {
		last[key] = nil
	}
	for _, o := range c.Set {
		last[o.Key()] = o
	}
	out := drivers.Change{}
	for key, o := range last {
		if o == nil {
			out.Remove = append(out.Remove, key)
		} else {
			out.Set = append(out.Set, o)
		}
	}
	return out
}

// note keeps why the node is not the router that is wanted, and logs it once.
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
