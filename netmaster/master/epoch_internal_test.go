package master

import (
	"testing"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

func TestTheNextEpochIsAboveItsFloorAndTheNextToTheSwitch(t *testing.T) {
	for _, last := range []uint32{0, 1, 62, 63, 490, 1000} {
		for _, floor := range []uint32{0, 1, 2, 63, 64, 489, 490, 491, 492, 1 << 31} {
			next := NextEpoch(last, floor)
			if next <= floor || next <= last || next%pipeline.EpochCycle != (last+1)%pipeline.EpochCycle || next > max(last+1, floor+pipeline.EpochCycle) {
				t.Errorf("after %d, above %d: %d", last, floor, next)
			}
		}
	}
}
