package hostaccess

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// fromManyPorts sends a datagram from each of a range of ports to a port.
const fromManyPorts = `
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
for port in range(20000 + int(sys.argv[4]), 20000 + int(sys.argv[5])):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.bind((sys.argv[1], port)); s.sendto(b"hello", (sys.argv[2], int(sys.argv[3])))`

// Two endpoints had all ports of the host for one server, which no other endpoint reached then.
func TestAnEndpointHasItsShareOfTheConnectionsToAServer(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset; conntrack -F 2>/dev/null") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
conntrack -F 2>/dev/null # connections of tests before
sysctl -qw net.netfilter.nf_conntrack_udp_timeout=600
nsenter --net="$2" nft -f - <<END
table inet quiet { chain in { type filter hook prerouting priority 0; udp dport 5000-5001 drop; }; }
END`)
	if err := new(rules).apply(t.Context(), tableFor(wayOut, closed, "inb01", 3*shareOfServer)); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ family, greedy, other, server string }{
		{"ipv4", "172.19.0.7", "172.19.0.8", "203.0.113.2"},
		{"ipv6", "fd63:6f6e:7469:7601::7", "", "2001:db8::2"},
	} {
		tracked := func(from string, port int) int {
			return strings.Count(run(t, fmt.Sprintf("conntrack -L -f %s -p udp -s %s --dport %d 2>/dev/null", v.family, from, port)), "\n")
		}
		testkit.Eventually(t, time.Minute, "it has its share", func() bool { // not at once: it begins too many a second
			python(t, inside, fromManyPorts, v.greedy, v.server, 5000, 0, shareOfServer)
			return tracked(v.greedy, 5000) == shareOfServer
		})
		testkit.Eventually(t, time.Minute, "it reaches another port", func() bool { // behind what is too much
			python(t, inside, fromManyPorts, v.greedy, v.server, 5000, shareOfServer, shareOfServer+10)
			python(t, inside, fromManyPorts, v.greedy, v.server, 5001, 0, 10)
			return tracked(v.greedy, 5001) == 10
		})
		if got := tracked(v.greedy, 5000); got != shareOfServer {
			t.Errorf("%s has %d connections to one port, want %d", v.greedy, got, shareOfServer)
		}
		if v.other != "" {
			python(t, inside, fromManyPorts, v.other, v.server, 5000, 0, 10)
			testkit.Eventually(t, time.Minute, "others have theirs", func() bool { return tracked(v.other, 5000) == 10 })
		}
	}
}
