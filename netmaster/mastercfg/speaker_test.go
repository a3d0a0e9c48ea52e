package mastercfg

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

func TestWhatARecordMakesOfANode(t *testing.T) {
	speaker, err := CfgBgpState{
		RouterIP: "192.0.2.11/24", RouterIPv6: "2001:db8::11/64", As: "65001", Neighbor: "192.0.2.1", NeighborAs: "1.10",
		Neighbors: []string{"192.0.2.2=65100", "2001:db8::1=65001"}, Password: "secret", HoldTime: 3,
	}.Speaker()
	want := BgpSpeaker{
		AS: 65001, Link: netip.MustParsePrefix("192.0.2.11/24"), Link6: netip.MustParsePrefix("2001:db8::11/64"),
		Neighbours: []BgpNeighbour{
			{netip.MustParseAddr("192.0.2.1"), 65546}, {netip.MustParseAddr("192.0.2.2"), 65100}, {netip.MustParseAddr("2001:db8::1"), 65001},
		}, Password: "secret", HoldTime: 3 * time.Second,
	}
	if err != nil || !reflect.DeepEqual(speaker, want) {
		t.Errorf("%+v, %v", speaker, err)
	}
	for _, r := range []CfgBgpState{
		{RouterIP: "192.0.2.11/24"}, {RouterIP: "192.0.2.10/31", As: "1", Neighbor: "192.0.2.11", NeighborAs: "1"}, {RouterIP: "192.0.2.11/24", NeighborAs: "x"},
	} {
		if _, err := r.Speaker(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestWrongRecordsAreRefusedByFieldAndValue(t *testing.T) {
	good := CfgBgpState{RouterIP: "192.0.2.11/24", As: "65001", Neighbor: "192.0.2.1", NeighborAs: "65100"}
	many := make([]string, maxBgpNeighbours)
	for i := range many {
		many[i] = fmt.Sprintf("192.0.2.%d=65100", 100+i)
	}
	for _, c := range []struct {
		spoil       func(*CfgBgpState)
		field, says string
	}{
		{func(r *CfgBgpState) { r.RouterIP = "192.0.2.0/24" }, "routerip", `"192.0.2.0/24"`},
		{func(r *CfgBgpState) { r.RouterIP = "192.0.2.255/24" }, "routerip", "host"},
		{func(r *CfgBgpState) { r.RouterIP = "192.0.2.3-9/24" }, "routerip", "3-9"},
		{func(r *CfgBgpState) { r.RouterIPv6 = "fe80::1/64" }, "ipv6Routerip", "fe80::1"},
		{func(r *CfgBgpState) { r.As = "" }, "as", `""`},
		{func(r *CfgBgpState) { r.As = "0" }, "as", `"0"`},
		{func(r *CfgBgpState) { r.As = "4294967296" }, "as", "4294967296"},
		{func(r *CfgBgpState) { r.As = "65536.1" }, "as", "65536.1"},
		{func(r *CfgBgpState) { r.NeighborAs = "six" }, "neighbor-as", "six"},
		{func(r *CfgBgpState) { r.Neighbor = "192.0.2.11" }, "neighbor", "own address"},
		{func(r *CfgBgpState) { r.Neighbor = "192.0.3.1" }, "neighbor", "192.0.2.0/24"},
		{func(r *CfgBgpState) { r.Neighbor = "192.0.2.255" }, "neighbor", "192.0.2.255"},
		{func(r *CfgBgpState) { r.Neighbors = []string{"192.0.2.1=65100"} }, "neighbors", "twice"},
		{func(r *CfgBgpState) { r.Neighbors = []string{"192.0.2.2"} }, "neighbors", "address=AS"},
		{func(r *CfgBgpState) { r.Neighbors = []string{"192.0.2.2=0"} }, "neighbors", `"0"`},
		{func(r *CfgBgpState) { r.Neighbors = []string{"::ffff:192.0.2.2=1"} }, "neighbors", "not an address"},
		{func(r *CfgBgpState) { r.Neighbors = []string{"2001:db8::1=65100"} }, "neighbors", "ipv6Routerip"},
		{func(r *CfgBgpState) { r.RouterIPv6, r.Neighbors = "2001:db8::11/64", []string{"fe80::1=65100"} }, "neighbors", "2001:db8::/64"},
		{func(r *CfgBgpState) { r.Neighbors = many }, "neighbors", "at most 32"},
		{func(r *CfgBgpState) { r.HoldTime = 2 }, "holdTime", "2"},
		{func(r *CfgBgpState) { r.HoldTime = -3 }, "holdTime", "-3"},
	} {
		r := good
		c.spoil(&r)
		_, err := r.Speaker()
		if e := fault.As(err); e == nil || e.Kind != fault.Invalid || e.Field != c.field || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), c.field) {
			t.Errorf("%+v: %v, want one about %s that says %s", r, err, c.field, c.says)
		}
	}
}
