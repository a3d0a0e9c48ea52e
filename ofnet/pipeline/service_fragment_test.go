package pipeline

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// The first fragment of a datagram has its port, which may be none of the service's, or not be for this client.
// Then the datagram is dropped, even if the later fragments could only be for the service's only port.
func TestADatagramInFragmentsIsServedAtItsOwnPortOnly(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	const port, other = 53, 54
	s := Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(web1)}
	for _, a := range []netip.Addr{vip, vip6} {
		s.Ports = append(s.Ports, ServicePort{Address: a, From: FromPods, Protocol: openflow.ProtoUDP, Port: port, Target: 5353,
			Sources: []netip.Prefix{inet.Host(db2.IPv4), inet.Host(db2.IPv6)}})
	}
	c.program(s.Numbered(noneTaken))
	c.pod(web1).serveShop()
	long := strings.Repeat("y", 4000)
	for _, at := range []netip.Addr{vip, vip6} {
		if got := c.pod(db2).requests(at, "udp", port, long); !strings.HasPrefix(got, web1.ID) {
			t.Errorf("the port of %s: %s", at, got)
		}
		if got := c.pod(db2).deniedRequest(at, "udp", other, long); !strings.HasPrefix(got, "error") {
			t.Errorf("another port of %s is served: %s", at, got)
		}
		if got := c.pod(db1).deniedRequest(at, "udp", port, long); !strings.HasPrefix(got, "error") {
			t.Errorf("a client that the port of %s is not for is served: %s", at, got)
		}
	}
}
