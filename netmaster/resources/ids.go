package resources

import (
	"math"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// maxGroupID is the highest id the datapath of the original controller could
// tell apart; id 0 means "no group".
const maxGroupID = 32767

// GroupIDs hands out endpoint group ids.
type GroupIDs struct{ Pool *mastercfg.GroupIDPool }

// NewGroupIDs fills the record of a new pool.
func NewGroupIDs() GroupIDs {
	return GroupIDs{&mastercfg.GroupIDPool{ID: "global", FreeEPGs: filled(maxGroupID+1, 1, maxGroupID)}}
}

// Allocate takes the lowest free id.
func (g GroupIDs) Allocate() (int, error) {
	id, ok := g.Pool.FreeEPGs.NextSet(1)
	if !ok || id > maxGroupID {
		return 0, fault.New(fault.Exhausted, "no endpoint group ids available")
	}
	g.Pool.FreeEPGs.Clear(id)
	return int(id), nil
}

// Free gives an id back; one outside 1..32767 is ignored.
func (g GroupIDs) Free(id int) {
	if id >= 1 && id <= maxGroupID {
		g.Pool.FreeEPGs.Set(uint(id))
	}
}

// Rebuild makes exactly the given ids the ones in use and tells whether that changed anything.
func (g GroupIDs) Rebuild(used map[int]bool) bool {
	fresh := NewGroupIDs()
	for id := range used {
		if id >= 1 && id <= maxGroupID {
			fresh.Pool.FreeEPGs.Clear(uint(id))
		}
	}
	same := fresh.Pool.FreeEPGs.Equal(&g.Pool.FreeEPGs.BitSet)
	*g.Pool = *fresh.Pool
	return !same
}

// LowestFreeVRF picks the number of a new tenant's routing domain. visit calls
// taken with the numbers in use, in ascending order, until that returns false.
func LowestFreeVRF(visit func(taken func(uint16) bool)) (uint16, error) {
	free := uint16(1)
	visit(func(n uint16) bool {
		if n == free {
			free++
		}
		return n < free && free < math.MaxUint16
	})
	if free == math.MaxUint16 {
		return 0, fault.New(fault.Exhausted, "no routing domain numbers available")
	}
	return free, nil
}
