package border

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/utils/durable"
)

// saved is what a run leaves to the next one. Without the routes, a restart would lose
// them for as long as it takes to learn them again. The rest is for a start while the
// store is away: neighbours wait for a node no longer than the restart time.
type saved struct {
	Routes    []bgp.Route
	BGP       *agent.BGP `json:",omitempty"`
	Announced []netip.Prefix
}

// saveRoutes writes changed routes to the file. It takes at most a small share of the time, as long lists take long.
func (b *Border) saveRoutes() {
	begun := time.Now()
	if begun.Before(b.keepNext) || !b.unsaved.Swap(false) {
		return
	}
	b.save()
	b.keepNext = time.Now().Add(keepShare * time.Since(begun))
}

// keepShare is the part of the time, one in so many, that may be spent on keeping routes.
const keepShare = 20

// save keeps all for the next run. What could not be kept is tried again.
func (b *Border) save() {
	err := b.write()
	if err == nil {
		b.kept, b.unkept = true, false
		return
	}
	b.unsaved.Store(true)
	if !b.unkept {
		b.log.WithError(err).Warn("routes cannot be kept for a restart")
	}
	b.unkept = true
}

func (b *Border) write() error {
	state := saved{Routes: b.speaker.Routes()}
	b.mu.Lock()
	state.BGP = b.wanted
	state.Announced = slices.Collect(maps.Keys(b.outer.told))
	b.mu.Unlock()
	data, err := json.Marshal(state)
	if err == nil {
		err = durable.MakeDir(filepath.Dir(b.cfg.StateFile))
	}
	if err == nil {
		err = durable.Put(b.cfg.StateFile, data)
	}
	return err
}

// touchSaved updates the time of the file, if the file has the present routes.
func (b *Border) touchSaved() {
	if !b.kept || b.unsaved.Load() {
		return
	}
	now := time.Now()
	if err := os.Chtimes(b.cfg.StateFile, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.WithError(err).Debug("age of the file of routes")
	}
}

// savedLoader returns a function that returns the state of an earlier run; nil if there is none, or if it is too old: neighbours
// have dropped this node's routes then. A difference of the clock counts in either direction. The file is read once, at the first
// call, as this run overwrites it.
func (b *Border) savedLoader() func() *saved {
	limit := cmp.Or(b.cfg.Speaker.RestartTime, bgp.DefaultRestartTime)
	read := sync.OnceValues(b.read)
	return func() *saved {
		if state, inUse := read(); time.Since(inUse).Abs() < limit {
			return state
		}
		return nil
	}
}

// read reads the file, and when the routes in it were in use.
func (b *Border) read() (state *saved, inUse time.Time) {
	info, err := os.Stat(b.cfg.StateFile)
	if err != nil {
		return nil, time.Time{}
	}
	data, err := os.ReadFile(b.cfg.StateFile)
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		b.log.WithError(err).Warn("routes of the last run cannot be read")
		return nil, time.Time{}
	}
	return state, info.ModTime()
}

// restore applies the routes of an earlier run, and the kernel's neighbour table. It is called with the lock, before anything is
// passed to the driver, and has an effect once.
func (b *Border) restore(state *saved) {
	if state == nil || b.recalled || state.BGP == nil && len(state.Routes) == 0 {
		return
	}
	b.recalled = true
	b.outer.setAnnounced(state.Announced)
	b.speaker.Announce(state.Announced, nil) // until the first state says what there is
	b.speaker.Recall(state.Routes)
	d := delta{} // all of it is in the first state
	b.learn(math.MaxInt, d)
	b.routeToNeighbours(b.wanted, d)
	if link, known, err := readNeighbours(); err != nil {
		b.log.WithError(err).Debug("next hops of the last run")
	} else if link != nil {
		b.router, b.links = routerOf(b.wanted), linksOf(b.wanted)
		b.updateNextHops(known, d) // the loop asks for the others
	}
}

// resumeSpeaking starts the speaker with the configuration of an earlier run, before the present one is known: that may take as
// long as the store is down, and the switch forwards meanwhile. It does nothing if the interface is not as that run has left it,
// such as after a boot.
func (b *Border) resumeSpeaking() {
	state := b.left()
	if state == nil || state.BGP == nil || !interfaceHas(state.BGP.Link) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started || b.told {
		return
	}
	b.wanted = state.BGP
	b.unsaved.Store(true)
	b.restore(state)
	b.speaker.Configure(speakerSettings(state.BGP))
	b.log.WithField("neighbours", len(state.BGP.Neighbours)).Info("BGP goes on with what was wanted in the last run")
}

// interfaceHas tells whether the interface exists and has an address.
func interfaceHas(address netip.Prefix) bool {
	link, err := findLink()
	if err != nil || link == nil || link.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_V4)
	return err == nil && slices.ContainsFunc(have, func(a netlink.Addr) bool { return a.IPNet.String() == address.String() })
}
