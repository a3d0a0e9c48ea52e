package nodeapi

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The shape is that of the original controller; numbers are those of a node's clients together.
func TestServiceStatsHaveTheirShape(t *testing.T) {
	provider := netip.MustParseAddr("10.1.2.1")
	counts := func(in, out uint64) map[netip.Addr]agent.EndpointCounts {
		return map[netip.Addr]agent.EndpointCounts{provider: {Received: drivers.Count{Packets: out, Bytes: 100 * out}, Sent: drivers.Count{Packets: in, Bytes: 100 * in}}}
	}
	s := agent.ServiceCounts{Tenant: "blue", Ports: []agent.PortCounts{
		{ServicePort: pipeline.ServicePort{Address: netip.MustParseAddr("10.1.2.200"), Protocol: 6, Port: 80, Target: 8080}, Providers: counts(3, 4)},
		{ServicePort: pipeline.ServicePort{Address: netip.MustParseAddr("10.1.2.200"), Protocol: 17, Port: 53, Target: 53}, Providers: counts(5, 6)},
	}}
	got, err := json.Marshal(clientsOf("192.168.2.1", map[string]agent.ServiceCounts{"web:blue": s}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"192.168.2.1:blue":{"EndpointIP":"192.168.2.1","VrfName":"blue",` +
		`"PortStats":{"PacketsIn":8,"BytesIn":800,"PacketsOut":10,"BytesOut":1000},"SvcStats":{` +
		`"10.1.2.200:53:UDP":{"ServiceIP":"10.1.2.200","ServiceVRF":"blue","Protocol":"UDP","SvcPort":"53","ProvPort":"53",` +
		`"SvcStats":{"PacketsIn":5,"BytesIn":500,"PacketsOut":6,"BytesOut":600},` +
		`"ProvStats":{"10.1.2.1":{"ProviderIP":"10.1.2.1","ServiceIP":"10.1.2.200","ServiceVrf":"blue","PacketsIn":5,"BytesIn":500,"PacketsOut":6,"BytesOut":600}}},` +
		`"10.1.2.200:80:TCP":{"ServiceIP":"10.1.2.200","ServiceVRF":"blue","Protocol":"TCP","SvcPort":"80","ProvPort":"8080",` +
		`"SvcStats":{"PacketsIn":3,"BytesIn":300,"PacketsOut":4,"BytesOut":400},` +
		`"ProvStats":{"10.1.2.1":{"ProviderIP":"10.1.2.1","ServiceIP":"10.1.2.200","ServiceVrf":"blue","PacketsIn":3,"BytesIn":300,"PacketsOut":4,"BytesOut":400}}}}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if got := providersView(s)["10.1.2.1"]; got != (endpointCountsView{RxPackets: 10, RxBytes: 1000, TxPackets: 8, TxBytes: 800}) {
		t.Errorf("of a provider: %+v", got)
	}
}

// Services have node ports at the same address, and may share external ones.
func TestServicesAtOneAddressAreCountedEachByItself(t *testing.T) {
	node, other, provider := netip.MustParseAddr("172.19.0.1"), netip.MustParseAddr("10.1.2.200"), netip.MustParseAddr("10.1.2.1")
	of := func(tenant string, address netip.Addr, port uint16, packets uint64) agent.ServiceCounts {
		return agent.ServiceCounts{Tenant: tenant, Ports: []agent.PortCounts{{
			ServicePort: pipeline.ServicePort{Address: address, Protocol: 6, Port: port},
			Providers:   map[netip.Addr]agent.EndpointCounts{provider: {Sent: drivers.Count{Packets: packets}}},
		}}}
	}
	all := clientsOf("192.168.2.1", map[string]agent.ServiceCounts{
		"web:blue": of("blue", node, 30080, 1), "db:blue": of("blue", node, 30432, 2), "lan:blue": of("blue", other, 80, 3),
		"web:green": of("green", node, 31080, 4),
	})
	got := map[string]uint64{}
	for client, stats := range all {
		for name, s := range stats.SvcStats {
			got[client+" "+name] = s.SvcStats.PacketsIn
		}
	}
	want := map[string]uint64{
		"192.168.2.1:blue 172.19.0.1:30080:TCP": 1, "192.168.2.1:blue 172.19.0.1:30432:TCP": 2, "192.168.2.1:blue 10.1.2.200": 3,
		"192.168.2.1:green 172.19.0.1": 4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
