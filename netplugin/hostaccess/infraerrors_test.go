package hostaccess

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// atInfra gives the host an interface in an infra network whose endpoint, in the namespace $1, sends everything to it:
// so it may in a bridged network.
const atInfra = `
ip link add contivh1 type veth peer name eth0 netns "$1"
ip link set contivh1 group 194 up; ip addr add 198.18.9.1/24 dev contivh1; ip addr add 2001:db8:9::1/64 dev contivh1 nodad
nsenter --net="$1" sh -ec 'ip link set eth0 up; ip addr add 198.18.9.3/24 dev eth0; ip addr add 2001:db8:9::3/64 dev eth0 nodad
ip route add default via 198.18.9.1; ip -6 route add default via 2001:db8:9::1
sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0'`

// An endpoint of a bridged infra network refused connections of the host and of masqueraded endpoints with machines
// outside, and made their packets small.
func TestNoEndpointOfAnInfraNetworkTellsOfWhatOthersWereSent(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, infra := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() {
		run(t, "ip link del contivh0; ip link del world; ip link del contivh1; nft flush ruleset; ip route flush cache")
	})
	run(t, "set -- "+inside+" "+world+shareTopology+"\nset -- "+infra+atInfra+`
nsenter --net=`+world+` sh -ec 'ip addr add 203.0.113.9/24 dev eth0; ip addr add 2001:db8::9/64 dev eth0 nodad
ip route add default via 203.0.113.1; ip -6 route add default via 2001:db8::1'
for chain in in there; do
	nft add rule inet seen $chain iifname contivh1 icmp type destination-unreachable icmp code 4 counter
	nft add rule inet seen $chain iifname contivh1 icmpv6 type packet-too-big counter
done`)
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, Closed{VXLANPort: 4789}, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	const port = 5000
	for _, v := range []struct{ pod, host, server, attacker string }{
		{"172.19.0.7", "203.0.113.1", "203.0.113.9", "198.18.9.3"},
		{"fd63:6f6e:7469:7601::7", "2001:db8::1", "2001:db8::9", "2001:db8:9::3"},
	} {
		server := datagrams(t, world, v.server, port)
		hosts, pods := datagrams(t, "/proc/thread-self/ns/net", v.host, 0), datagrams(t, inside, v.pod, 0)
		for _, client := range []*net.UDPConn{hosts, pods} {
			exchange(t, client, server, func(at int) {
				python(t, infra, tooBig, v.host, v.server, at, port)
				if client == pods {
					python(t, infra, tooBig, v.server, v.host, port, at) // to the server, about its answers
				}
			})
		}
		if got := run(t, "ip route get "+v.server); strings.Contains(got, "mtu") {
			t.Errorf("an endpoint has made the packets of the host small: %s", got)
		}
		testkit.Eventually(t, time.Minute, "an endpoint refuses what the host sends it", func() bool {
			return strings.Contains(python(t, "", refused, v.attacker, 0, 9, 5), "refused")
		})
	}
	for _, chain := range []string{"in", "there"} {
		if got := run(t, "nft list chain inet seen "+chain+" | grep contivh1"); strings.Count(got, "packets 0 ") != 2 {
			t.Errorf("errors about what others were sent, in %s:\n%s", chain, got)
		}
	}
}

// kube-proxy has the kernel accept packets to loopback addresses on all links.
func TestInfraNetworksLeadToNoLoopbackAddress(t *testing.T) {
	testkit.NeedsMachine(t)
	infra := fakenode.NewNamespace(t)
	before := read("ipv4/conf/all/route_localnet")
	t.Cleanup(func() {
		run(t, "ip link del contivh1; ip link set lo down; nft flush ruleset; sysctl -qw net.ipv4.conf.all.route_localnet="+before)
	})
	run(t, "set -- "+infra+atInfra+`
ip link set lo up; sysctl -qw net.ipv4.conf.all.route_localnet=1
nsenter --net="$1" sh -ec 'sysctl -qw net.ipv4.conf.all.route_localnet=1
ip addr flush dev lo; ip route add 127.0.0.0/8 via 198.18.9.1'
nft add table inet seen; nft add chain inet seen in '{ type filter hook input priority 300; }'
nft add rule inet seen in iifname contivh1 ip daddr 127.0.0.0/8 counter
nft add rule inet seen in iifname contivh1 udp dport 7 ip daddr 198.18.9.1 counter`)
	for i, table := range []table{tableForInfra(closed, 2000), tableFor(wayOut, closed, "inb01", 2000)} {
		if err := new(rules).apply(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		python(t, infra, from, "198.18.9.3", "127.0.0.1")
		python(t, infra, from, "198.18.9.3", "198.18.9.1") // behind it
		seen := func(to string) string { return run(t, "nft list chain inet seen in | grep '"+to+"'") }
		testkit.Eventually(t, time.Minute, "what follows arrives", func() bool {
			return strings.Contains(seen("daddr 198.18.9.1"), fmt.Sprintf("packets %d ", i+1))
		})
		if got := seen("127.0.0.0/8"); !strings.Contains(got, "packets 0 ") {
			t.Errorf("an endpoint reaches a loopback address, table %d: %s", i, got)
		}
	}
}
