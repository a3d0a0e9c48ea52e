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
