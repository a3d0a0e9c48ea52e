package agent

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Inspection is the agent's state, for people who look for a fault.
type Inspection struct {
	HostLabel string
	VTEP      netip.Addr
	FwdMode   string
	ArpMode   string
	Peers     map[string]netip.Addr // host -> VTEP in use
	VRFs      map[string]uint16     // tenant -> routing domain
	Objects   []pipeline.Object     // passed to the driver, sorted
	Pending   map[string]string     // "kind id" -> what it waits for
	Refused   []string              // why registrations of nodes are refused
	Status    drivers.Status
}

// Inspect returns a copy of the agent's present state.
func (a *Agent) Inspect() Inspection {
	view := a.inspected(a.cfg.Driver.Status())
	// Sorted without the lock: there may be very many.
	slices.SortFunc(view.Objects, func(x, y pipeline.Object) int { return byKindAndID(x.Key(), y.Key()) })
	return view
}

// inspected returns the inspection with unsorted objects.
func (a *Agent) inspected(status drivers.Status) Inspection {
	a.mu.Lock()
	defer a.mu.Unlock()
	view := Inspection{
		HostLabel: a.cfg.HostLabel, VTEP: a.cfg.VTEP,
		FwdMode: a.cache.global.FwdMode, ArpMode: a.cache.global.ArpMode,
		Peers: maps.Clone(a.cache.peers.vtep), VRFs: maps.Clone(a.cache.vrfs),
		Objects: slices.Collect(maps.Values(a.planner.given)),
		Pending: make(map[string]string, len(a.planner.pending)), Status: status,
	}
	view.Refused = slices.Sorted(maps.Values(a.cache.peers.refused))
	for key, err := range a.planner.pending {
		view.Pending[string(key.Kind)+" "+key.ID] = err.Error()
	}
	return view
}
