package hostaccess

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// toManyPorts sends a datagram to each of so many ports from 5000 on.
const toManyPorts = `
import socket, sys
with socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM) as s:
    for port in range(5000, 5000 + int(sys.argv[2])):
        s.sendto(b"hello", (sys.argv[1], port))`

// In a bridged infra network an endpoint may have its host forward packets: it filled the host's table of connections.
func TestAnEndpointOfAnInfraNetworkHasItsShareOfConnections(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, infra := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() {
		run(t, "ip link del contivh0; ip link del world; ip link del contivh1; nft flush ruleset; conntrack -F 2>/dev/null")
	})
	run(t, "set -- "+inside+" "+world+shareTopology+"\nset -- "+infra+atInfra+`
nsenter --net=`+world+` nft -f - <<END
table inet quiet { chain in { type filter hook prerouting priority 0; udp dport 5000-5999 drop; }; }
END`)
	const share = 20
	for name, table := range map[string]table{"no way out": tableForInfra(closed, share), "a way out": tableFor(wayOut, closed, "inb01", share)} {
		run(t, "nft delete table inet contiv 2>/dev/null || true; conntrack -F 2>/dev/null")
		if err := new(rules).apply(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		for _, v := range []struct{ family, from, to string }{{"ipv4", "198.18.9.3", "203.0.113.2"}, {"ipv6", "2001:db8:9::3", "2001:db8::2"}} {
			python(t, infra, toManyPorts, v.to, 50)
			tracked := func() int {
				return strings.Count(run(t, fmt.Sprintf("conntrack -L -f %s -p udp -s %s 2>/dev/null", v.family, v.from)), "src="+v.from+" dst="+v.to)
			}
			testkit.Eventually(t, time.Minute, "it has its share", func() bool { return tracked() >= share })
			run(t, "ping -c1 -W5 "+v.from) // all has been dealt with
			if got := tracked(); got != share {
				t.Errorf("%s: %s has %d connections by the host, want %d", name, v.from, got, share)
			}
		}
	}
}
