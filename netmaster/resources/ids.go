package resources

import (
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// LowestGroupID returns a free id for a new endpoint group; id 0 means "no group".
func LowestGroupID(used Used[uint]) (int, error) {
	id, ok := used.NextFree(1)
	if !ok || id > pipeline.MaxGroup {
		return 0, fault.New(fault.Exhausted, "no endpoint group ids available")
	}
	return int(id), nil
}

// LowestVRF returns a free number for a new tenant's routing domain.
func LowestVRF(used Used[uint]) (uint16, error) {
	n, ok := used.NextFree(1)
	if !ok || n > pipeline.MaxVRF {
		return 0, fault.New(fault.Exhausted, "no routing domain numbers available")
	}
	return uint16(n), nil
}
