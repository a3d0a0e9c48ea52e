package pipeline

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// The remaining connections of a group are found by processing each of its buckets once, not by comparing each
// bucket with each ending connection: for two hundred thousand that would take a minute.
func TestWhatRemainsOfAGroupIsFoundByOneLookAtEachBucket(t *testing.T) {
	const many, enough = 200_000, 10 * time.Second
	o, p := shop(), ServicePort{Address: vip, Protocol: openflow.ProtoTCP, Port: 80}
	g := openflow.Group{ID: groupServices, Type: openflow.GroupSelect}
	for i := range many {
		provider := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		g.Buckets = append(g.Buckets, openflow.Bucket{Weight: 1, Actions: o.choice(p, netip.AddrPortFrom(provider, 8080))})
	}
	ends := Connections(g)[many/2:]
	var rest openflow.Group
	if took := testkit.Processor(t, func() { rest = Ending(g, ends) }); took > enough {
		t.Errorf("%d buckets took %v", many, took)
	}
	if len(rest.Buckets) != many-many/2 || rest.ID != g.ID || rest.Buckets[0].Weight != 0 || g.Buckets[0].Weight != 1 {
		t.Errorf("group %d with %d buckets remains, the first of weight %d", rest.ID, len(rest.Buckets), rest.Buckets[0].Weight)
	}
}

// What tiers have admitted of an endpoint ends with it in both directions and by each protocol. Of IPv6 these are named, so that no
// echoes are among them.
func TestAllConnectionsOfAnEndpointEndButEchoesOfIPv6(t *testing.T) {
	e := Endpoint{VRF: 5, IPv4: addr("10.1.1.1"), IPv6: addr("fd00:1::1"), Local: true, Tiers: JudgesIn}
	all := ConnectionsOf(e)
	tiers := Zones(e.VRF)[1]
	for a, protocols := range map[netip.Addr][]uint8{e.IPv4: {0}, e.IPv6: {openflow.ProtoTCP, openflow.ProtoUDP, openflow.ProtoSCTP}} {
		for _, p := range protocols {
			for _, want := range []openflow.CTFlush{
				{Zone: e.VRF, Protocol: p, By: a}, {Zone: tiers, Protocol: p, By: a}, {Zone: tiers, Protocol: p, To: netip.AddrPortFrom(a, 0)},
			} {
				if !slices.Contains(all, want) {
					t.Errorf("%+v does not end", want)
				}
			}
		}
	}
	for _, f := range all {
		if six := f.By.Is6() || f.To.Addr().Is6() || f.From.Addr().Is6(); six && f.Protocol == 0 {
			t.Errorf("%+v ends echoes of IPv6", f)
		}
	}
	if n := len(ConnectionsOf(Endpoint{VRF: 5, IPv4: e.IPv4})); n != 0 {
		t.Errorf("%d kinds of connections end of an endpoint of another node without tiers", n)
	}
}

// An address is that of another endpoint only within a tenant.
func TestTheAddressesOfAnotherTenantAreOthers(t *testing.T) {
	e := Endpoint{VRF: 5, IPv4: addr("10.1.1.1"), IPv6: addr("fd00:1::1")}
	if got := e.Without(Endpoint{VRF: 5, IPv4: e.IPv4}); got.IPv4.IsValid() || got.IPv6 != e.IPv6 {
		t.Errorf("without another one of the tenant: %+v", got)
	}
	if got := e.Without(Endpoint{VRF: 6, IPv4: e.IPv4, IPv6: e.IPv6}); got.IPv4 != e.IPv4 || got.IPv6 != e.IPv6 {
		t.Errorf("without one of another tenant: %+v", got)
	}
}
