package resources

import (
	"github.com/contiv/netplugin/utils/fault"
)

// maxGroupID is the highest id the datapath of the original controller could
// tell apart; id 0 means "no group".
const maxGroupID = 32767

// LowestGroupID finds the id of a new endpoint group.
func LowestGroupID(used Used[uint]) (int, error) {
	id, ok := used.NextFree(1)
	if !ok || id > maxGroupID {
		return 0, fault.New(fault.Exhausted, "no endpoint group ids available")
	}
	return int(id), nil
}

// maxVRF is the last routing domain: the datapath tracks the connections of each in two of
// 65536 zones, and needs some for itself.
const maxVRF = 32765

// LowestVRF finds the number of a new tenant's routing domain.
func LowestVRF(used Used[uint]) (uint16, error) {
	n, ok := used.NextFree(1)
	if !ok || n > maxVRF {
		return 0, fault.New(fault.Exhausted, "no routing domain numbers available")
	}
	return uint16(n), nil
}
