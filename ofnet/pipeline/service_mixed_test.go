package pipeline

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Two services have UDP ports at one address: the later fragments of a datagram that begins a connection may be
// for either, so the first one does not bring them to the provider of the other service. Fragmented datagrams of
// an established connection are answered.
func TestFragmentsGoToNoProviderOfAnotherServiceAtTheAddress(t *testing.T) {
	stallKeeper := endpoint("web3", webBlue, 3, front)
	c := startCluster(t, web1, stallKeeper, db1)
	port := func(id string, number uint16, provider Endpoint) Service {
		s := Service{ID: id, VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(provider)}
		s.Ports = []ServicePort{{Address: vip, From: FromPods, Protocol: openflow.ProtoUDP, Port: number, Target: 5353, Mixed: true}}
		return s.Numbered(noneTaken)
	}
	const shopPort, stallPort = 53, 54
	c.program(port("shop:blue", shopPort, web1), port("stall:blue", stallPort, stallKeeper))
	long := strings.Repeat("y", 4000)
	for _, e := range []Endpoint{web1, stallKeeper} {
		c.pod(e).serveShop()
	}
	providers := map[int]Endpoint{shopPort: web1, stallPort: stallKeeper}
	for asked, provider := range providers {
		other := shopPort + stallPort - asked
		seen := c.pod(providers[other]).wire()
		if got := c.pod(db1).deniedRequest(vip, "udp", asked, long); !strings.HasPrefix(got, "error") {
			t.Errorf("a question in fragments begins a connection to port %d: %s", asked, got)
		}
		if got := c.pod(db1).requests(vip, "udp", other, "fence"); !strings.HasPrefix(got, providers[other].ID) {
			t.Fatalf("port %d: %s", other, got)
		}
		const fragment = 0x3f // the flag "more" and the offset, in the first byte of both
		if got := seen.receive(soon, func(f []byte) bool {
			return strings.Contains(string(f), "fence") || len(f) > 34 && f[12] == 8 && f[13] == 0 && f[20]&fragment|f[21] != 0
		}); !strings.Contains(string(got), "fence") {
			t.Errorf("the provider of port %d gets a fragment of a datagram to port %d: %x", other, asked, got)
		}
		if got := c.pod(db1).requests(vip, "udp", asked, "long"); !strings.HasPrefix(got, provider.ID) || !strings.Contains(got, " 40") {
			t.Errorf("a long answer of port %d: %s", asked, got)
		}
	}
}
