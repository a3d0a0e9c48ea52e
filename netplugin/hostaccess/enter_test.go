package hostaccess

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// unasked sends an endpoint answers to a ping that it has not sent, and to a connection that it has not opened.
const unasked = `
import socket, struct, sys
to, four = sys.argv[1], ":" not in sys.argv[1]
def checksum(b):
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    s = (s >> 16) + (s & 0xffff)
    return ~(s + (s >> 16)) & 0xffff
pong = struct.pack("!BBHHH", 0 if four else 129, 0, 0, 7, 1)
if four: pong = pong[:2] + struct.pack("!H", checksum(pong)) + pong[4:]
family = socket.AF_INET if four else socket.AF_INET6
icmp = socket.IPPROTO_ICMP if four else socket.IPPROTO_ICMPV6
s = socket.socket(family, socket.SOCK_RAW, icmp)
s.sendto(pong, (to, 0))
tcp = struct.pack("!HHIIBBHHH", 443, 40000, 1, 1, 0x50, 0x12, 1000, 0, 0)
s = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP)
if four:
    pseudo = socket.inet_aton(sys.argv[2]) + socket.inet_aton(to) + struct.pack("!HH", 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
else: s.setsockopt(socket.IPPROTO_IPV6, 7, 16) # IPV6_CHECKSUM
s.sendto(tcp, (to, 0))`

// A reply without a connection is no new connection to the tracker either, and would reach endpoints.
func TestWhoIsOutsideReachesNoEndpointByWhatAnswersNobody(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nsenter --net="$2" sh -ec 'ip route add default via 203.0.113.1; ip -6 route add default via 2001:db8::1'
nft add rule inet seen there iifname world oifname contivh0 counter
nft add chain inet seen come '{ type filter hook prerouting priority 0; }'
nft add rule inet seen come iifname world ct state invalid counter`)
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	python(t, world, unasked, "172.19.0.7", "203.0.113.2")
	python(t, world, unasked, "fd63:6f6e:7469:7601::7", "")
	testkit.Eventually(t, time.Minute, "all have come to the host", func() bool {
		return strings.Contains(run(t, "nft list chain inet seen come"), "packets 4 ")
	})
	if got := run(t, "nft list chain inet seen there"); !strings.Contains(got, "packets 0 ") {
		t.Errorf("an endpoint is reached:\n%s", got)
	}
}
