package pipeline

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// A client whose service is gone is refused with its next segment, whether tiers apply to it or not. One that begins a
// connection is not, as the service may be there in a moment.
func TestConnectionsToAServiceThatIsGoneAreRefused(t *testing.T) {
	c := startCluster(t, db1, web2)
	s := serving(FromPods, addressesOf(web2), shared...)
	way := wayOut
	for _, at := range shared {
		way.Ranges = append(way.Ranges, netip.PrefixFrom(at, at.BitLen()-16).Masked())
	}
	c.withOutside(db1, s)
	c.pod(web2).serveShop()
	client, refused := c.pod(db1), uint64(0)
	for _, tiers := range []Tiers{0, Tracked, isolated} {
		c.classify(map[string]Tiers{db1.ID: tiers})
		rule := allowing(true, classDB1, withPeers(classWeb2))
		for _, at := range shared {
			c.program(s, way, rule)
			conn := client.dialFrom(netip.AddrPort{}, netip.AddrPortFrom(at, 80))
			refused = client.node.dropped(t, reasonNoProvider)
			c.program(way, rule)
			if _, err := conn.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			if got := settled(1, func() uint64 { return client.node.dropped(t, reasonNoProvider) - refused }); got == 0 {
				t.Fatalf("tiers %d: nobody refuses a segment to %s, whose service is gone", tiers, at)
			}
			_ = conn.Close()
		}
	}
}

// Other packets are not refused.
func TestWhoBeginsAConnectionToNoServiceIsNotRefused(t *testing.T) {
	way := wayOut
	way.Ranges = []netip.Prefix{prefix("10.96.0.0/16")}
	for _, f := range wantsOf(node1(), way, portOf(way)).Flows {
		if f.Table != tableForward || f.Priority != priorityEnded {
			continue
		}
		flags, has := f.Match.Get(openflow.FieldTCPFlags)
		if !has || flags.Value.Lo != 0 || flags.Mask.Lo != uint64(openflow.TCPSyn|openflow.TCPRst) {
			t.Errorf("flow %v refuses more than segments of a connection", f)
		}
	}
}
