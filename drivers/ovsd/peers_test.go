package ovsd

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

func TestAPeerIsSolicitedWithItsFirstEndpointAndForgottenWithItsLast(t *testing.T) {
	a, b := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	at := func(vtep netip.Addr) pipeline.Object { return pipeline.Endpoint{ID: "x", VTEP: vtep} }
	known := newPeers()
	for _, step := range []struct {
		old, now  pipeline.Object
		solicited netip.Addr
		count     int
	}{
		{nil, at(a), a, 1},
		{nil, at(a), netip.Addr{}, 1},
		{at(a), at(b), b, 2},
		{at(a), nil, netip.Addr{}, 1},
		{at(b), at(b), netip.Addr{}, 1},
		{nil, pipeline.Rule{}, netip.Addr{}, 1},
		{nil, pipeline.Endpoint{Local: true, VTEP: a}, netip.Addr{}, 1},
		{at(b), nil, netip.Addr{}, 0},
	} {
		known.replace(step.old, step.now)
		var solicited netip.Addr
		for _, peer := range known.take() {
			solicited = peer
		}
		if solicited != step.solicited || len(known.count) != step.count {
			t.Errorf("%v -> %v: solicited %v, know %v", step.old, step.now, solicited, known.count)
		}
	}
}
