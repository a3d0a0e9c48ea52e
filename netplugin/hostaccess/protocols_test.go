package hostaccess

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// ofProtocols sends a packet of each protocol from an address to another, and then a datagram to port 7.
const ofProtocols = `
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
for protocol in sys.argv[3:]:
    with socket.socket(family, socket.SOCK_RAW, int(protocol)) as s:
        s.bind((sys.argv[1], 0)); s.sendto(b"E" + bytes(39), (sys.argv[2], 0))
with socket.socket(family, socket.SOCK_DGRAM) as s:
    s.bind((sys.argv[1], 0)); s.sendto(b"hello", (sys.argv[2], 7))`

// An endpoint sent its own host packets of tunnels, which tunl0 and its like accept from everybody.
func TestNoEndpointReachesTunnelsOfItsHostWithoutPorts(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, infra := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; ip link del contivh1; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+"\nset -- "+infra+atInfra+`
for link in contivh0 contivh1; do
	nft add rule inet seen in iifname $link udp dport 7 counter
	nft add rule inet seen in iifname $link meta l4proto '{ 4, 41, 47, 50, 51, 97, 115, 137 }' counter comment tunnels
	nft add rule inet seen in iifname $link meta l4proto 89 counter comment routers
done`)
	if err := new(rules).apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	seen := func(link, of string) string {
		return run(t, "nft list chain inet seen in | grep "+link+" | grep '"+of+"'")
	}
	for _, from := range []struct{ namespace, link, source, host string }{
		{inside, "contivh0", "172.19.0.7", "203.0.113.1"}, {inside, "contivh0", "fd63:6f6e:7469:7601::7", "2001:db8::1"},
		{infra, "contivh1", "198.18.9.3", "198.18.9.1"}, {infra, "contivh1", "2001:db8:9::3", "2001:db8:9::1"},
	} {
		before := seen(from.link, "udp dport 7")
		python(t, from.namespace, ofProtocols, from.source, from.host, 4, 41, 47, 50, 97, 115, 137, 89)
		testkit.Eventually(t, time.Minute, "what is sent last arrives", func() bool { return seen(from.link, "udp dport 7") != before })
		if got := seen(from.link, "tunnels"); !strings.Contains(got, "packets 0 ") {
			t.Errorf("packets of tunnels from %s: %s", from.source, got)
		}
	}
	if got := seen("contivh0", "routers"); !strings.Contains(got, "packets 0 ") {
		t.Errorf("packets without ports by the way out: %s", got)
	}
	if got := seen("contivh1", "routers"); strings.Contains(got, "packets 0 ") { // hosts and pods may be routers to each other
		t.Errorf("packets of routers in an infra network: %s", got)
	}
}
