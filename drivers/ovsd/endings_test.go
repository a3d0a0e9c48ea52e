package ovsd

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

func TestConnectionsAreEndedSomeRoundsLongUnlessTheirProviderIsBack(t *testing.T) {
	to := func(port uint16) openflow.CTFlush {
		return openflow.CTFlush{Zone: 1, From: netip.AddrPortFrom(netip.MustParseAddr("10.1.1.1"), port)}
	}
	a, b, c := []openflow.CTFlush{to(1)}, []openflow.CTFlush{to(2)}, []openflow.CTFlush{to(3)}
	var e endings
	expect := func(got []openflow.CTFlush, want ...openflow.CTFlush) {
		t.Helper()
		if len(got) != len(want) || slices.ContainsFunc(want, func(c openflow.CTFlush) bool { return !slices.Contains(got, c) }) {
			t.Errorf("ended %v, want %v", got, want)
		}
	}
	expect(e.change(a, nil), to(1))
	expect(e.change(b, nil), to(2)) // begins its rounds, those of the first go on
	expect(e.change(c, c))          // moved to another port
	expect(e.round(), to(1), to(2))
	expect(e.change(nil, a)) // is back
	expect(e.change(b, nil), to(2))
	for range endingRounds - 1 {
		expect(e.round(), to(2))
	}
	expect(e.round())
	if len(e.rounds) != 0 {
		t.Errorf("left: %v", e.rounds)
	}
}
