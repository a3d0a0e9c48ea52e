package pipeline

import (
	"net/netip"
	"strings"
	"testing"
)

// In a bridged network, too, an error about a translated packet quotes the packet as it was sent, whether connections are
// tracked or judged, or not.
func TestErrorsAboutWhatAServiceOfABridgedNetworkWasSentReachTheClient(t *testing.T) {
	const clients, providers = 1, 2 // classes
	c := startCluster(t, lan1, lan2, lan3)
	at := []netip.Addr{addr("10.1.4.200"), addr("fd00:4::c8")}
	for _, provider := range []Endpoint{lan1, lan2} {
		s := Service{ID: "shop:blue", Mode: lanBlue.Mode, VRF: blueVRF, Tag: lanBlue.Tag, Providers: addressesOf(provider)}
		for _, a := range at {
			s.Ports = append(s.Ports, ServicePort{Address: a, From: FromPods, Protocol: 17, Port: 53, Target: 5353})
		}
		for _, tiers := range []Tiers{0, Tracked, Tracked | isolated} {
			for _, e := range []Endpoint{lan1, lan2, lan3} {
				c.pod(e).Tiers, c.pod(e).Class = tiers, providers
			}
			c.pod(lan3).Class = clients
			c.epoch++
			out, in := allowing(true, clients, withPeers(providers)), allowing(false, providers, withPeers(clients))
			out.ID, out.Number, in.ID, in.Number = "out", 1, "in", 2
			c.program(s.Numbered(noneTaken), Epoch{Number: c.epoch}, out, in)
			for _, a := range at {
				if got := c.pod(lan3).requests(a, "udp", 53, "hello"); !strings.Contains(got, "ConnectionRefused") {
					t.Errorf("tiers %d: nobody listens on %s, asked at %s: %s", tiers, provider.ID, a, got)
				}
			}
		}
	}
}
