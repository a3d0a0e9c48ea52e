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

// saved is the state that a run leaves to the next one. Without the routes, a restart would lose them until
// they are learned again. The other fields are for a start while the store is unreachable: neighbours wait for
// a restarted node no longer than the restart time.
type saved struct {
	Routes    []bgp.Route
	BGP       *agent.BGP `json:",omitempty"`
	Announced []netip.Prefix
}

// saveRoutes writes changed routes to the file. It uses only a
// small share of the time, because writing long lists takes long.
func (b *Border) saveRoutes() {
	begun := time.Now()
	if begun.Before(b.keepNext) || !b.unsaved.Swap(false) {
		return
	}
	b.save()
	b.keepNext = time.Now().Add(keepShare * time.Since(begun))
}

// keepShare limits the time spent on saving routes to one part in so many.
const keepShare = 20

// save writes the state for the next run. A failed save is retried.
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

// touchSaved updates the modification time of the file, if it has the present routes.
func (b *Border) touchSaved() {
	if !b.kept || b.unsaved.Load() {
		return
	}
	now := time.Now()
	if err := os.Chtimes(b.cfg.StateFile, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.WithError(err).Debug("age of the file of routes")
	}
}

// savedLoader returns a function that returns the state of an earlier run. It returns nil if there is none, or if it
// is older than the restart time: neighbours have dropped this node's routes by then. A clock that was set back counts
// like one that was set forward. The file is read once, at the first call, because this run overwrites it.
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

// read returns the state in the file, and when its routes were in use.
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

// restore applies the routes of an earlier run, and the kernel's neighbour table. The caller holds the lock,
// and has not passed anything to the driver yet. Only the first call has an effect.
func (b *Border) restore(state *saved) {
	if state == nil || b.recalled || state.BGP == nil && len(state.Routes) == 0 {
		return
	}
	b.recalled = true
	b.outer.setAnnounced(state.Announced)
	b.speaker.Announce(state.Announced, nil) // until the first state is known
	b.speaker.Recall(state.Routes)
	d := delta{} // the first state includes it
	b.learn(math.MaxInt, d)
	b.routeToNeighbours(b.wanted, d)
	if link, known, err := readNeighbours(); err != nil {
		b.log.WithError(err).Debug("next hops of the last run")
	} else if link != nil {
		b.router, b.links = routerOf(b.wanted), linksOf(b.wanted)
		b.updateNextHops(known, d) // the loop solicits the others
	}
}

// resumeSpeaking starts the speaker with the configuration of an earlier run, before the present one is known:
// that may take as long as the store is down, and the switch forwards meanwhile. It does nothing if the
// interface has changed since that run, for example after a boot.
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

// interfaceHas reports whether the interface exists, is up, and has an address.
func interfaceHas(address netip.Prefix) bool {
	link, err := findLink()
	if err != nil || link == nil || link.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_V4)
	return err == nil && slices.ContainsFunc(have, func(a netlink.Addr) bool { return a.IPNet.String() == address.String() })
}
