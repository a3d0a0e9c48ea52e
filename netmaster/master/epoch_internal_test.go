package master

import (
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
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

// A large plan is seen in parts: connections are evaluated again when it is complete.
func TestTheEpochComesLast(t *testing.T) {
	rule := []byte(`{"Action":"deny"}`)
	epoch := placeOf(mastercfg.K8sEpochKey, nil, nil)
	for _, place := range []int{placeOf(mastercfg.PolicyRulePrefix+"r", nil, rule), placeOf(mastercfg.PolicyRulePrefix+"r", rule, nil),
		placeOf(mastercfg.PolicyRulePrefix+"r", nil, []byte(`{"Action":"allow"}`)), placeOf(mastercfg.VRFPrefix+"blue", nil, nil), placeOf(mastercfg.K8sPolicyPrefix+"p", nil, nil)} {
		if place >= epoch {
			t.Errorf("place %d, and that of the epoch is %d", place, epoch)
		}
	}
}
