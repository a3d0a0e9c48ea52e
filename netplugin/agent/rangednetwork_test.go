package agent

import (
	"net/netip"
	"testing"
)

func TestANetworkMayHaveARangeOfItsSubnet(t *testing.T) {
	for text, want := range map[string][2]netip.Addr{
		"10.1.1.100-10.1.1.199": {netip.MustParseAddr("10.1.1.100"), netip.MustParseAddr("10.1.1.199")},
		"":                      {},
		"nonsense":              {},
	} {
		n, err := decodeNetwork("web.blue", []byte(`{"tenant":"blue","pktTagType":"vxlan","pktTag":1,"extPktTag":1,"subnetIP":"10.1.1.0","subnetLen":24,"ipAddrRange":"`+text+`"}`))
		if got := [2]netip.Addr{n.part.First, n.part.Last}; err != nil || n.problem != "" || got != want {
			t.Errorf("%q: %v, %v %s", text, got, err, n.problem)
		}
	}
}
