package hostaccess

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// Rules of other software forward a process's packets to a cluster address to a machine outside.
func TestTheHostIsKnownOutsideByNoAddressOfAnInfraNetwork(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() {
		run(t, "nft flush ruleset; for l in contivh1 toworld; do ip link del $l 2>/dev/null || true; done; ip netns del world || true")
	})
	run(t, `set -e
ip link set lo up
ip netns add world
ip link add toworld type veth peer name eth0 netns world
ip addr add 203.0.113.1/24 dev toworld; ip addr add 2001:db8:1::1/64 dev toworld nodad; ip link set toworld up
ip -n world addr add 203.0.113.2/24 dev eth0; ip -n world addr add 2001:db8:1::2/64 dev eth0 nodad; ip -n world link set eth0 up
ip -n world route add 10.127.0.0/16 via 203.0.113.1; ip -n world route add fd00:10:127::/64 via 2001:db8:1::1
ip link add contivh1 type bridge; ip link set contivh1 group 194 up
ip addr add 10.127.0.4/16 dev contivh1; ip addr add fd00:10:127::4/64 dev contivh1 nodad
ip route add 10.96.0.0/16 dev contivh1 src 10.127.0.4; ip route add fd00:10:96::/112 dev contivh1 src fd00:10:127::4
nft -f - <<END
table inet proxy {
	chain here { type nat hook output priority -100; ip daddr 10.96.0.1 dnat ip to 203.0.113.2; ip6 daddr fd00:10:96::1 dnat ip6 to 2001:db8:1::2; }
}
END`)
	networks := []agent.HostNetwork{
		{Network: mastercfg.CfgNetworkState{NetworkName: "another"}}, // the store does not have its endpoint yet
		{Endpoint: &mastercfg.CfgEndpointState{IPAddress: "10.127.0.4", IPv6Address: "fd00:10:127::4/64"}},
	}
	if err := new(rules).apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).withInfraSources(infraSourcesOf(networks), wayOut)); err != nil {
		t.Fatal(err)
	}
	answerIn(t, "world", "tcp :: 80")
	for at, as := range map[string]string{"10.96.0.1": "203.0.113.1", "fd00:10:96::1": "2001:db8:1::1"} {
		testkit.Eventually(t, time.Minute, "an answer at "+at, func() bool {
			got := strings.TrimSpace(run(t, fmt.Sprintf(testkit.Python+" -ISc '%s' tcp %s 80 2>&1 || true", asking, at)))
			if strings.Contains(got, "10:127") || strings.Contains(got, "10.127") {
				t.Fatalf("%s is asked by %s, want %s", at, got, as)
			}
			return got == as
		})
	}
}

// An endpoint of another tenant, which comes by the way out, reached services that the host has at its address in an
// infra network.
func TestTheWayOutLeadsToNoAddressOfTheHostInAnInfraNetwork(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, infra := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; ip link del contivh1; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+"\nset -- "+infra+atInfra+`
nft add rule inet seen in iifname contivh0 ip daddr 198.18.9.1 udp dport 7 counter
nft add rule inet seen in iifname contivh0 ip6 daddr 2001:db8:9::1 udp dport 7 counter`)
	networks := []agent.HostNetwork{{Endpoint: &mastercfg.CfgEndpointState{IPAddress: "198.18.9.1", IPv6Address: "2001:db8:9::1"}}}
	if err := new(rules).apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).withInfraSources(infraSourcesOf(networks), wayOut)); err != nil {
		t.Fatal(err)
	}
	for pod, host := range map[string]string{"172.19.0.7": "198.18.9.1", "fd63:6f6e:7469:7601::7": "2001:db8:9::1"} {
		asked, asking := datagrams(t, inside, pod, 7000), datagrams(t, "/proc/thread-self/ns/net", host, 7001)
		python(t, inside, from, pod, host)
		for _, way := range []struct{ from, to *net.UDPConn }{{asking, asked}, {asked, asking}} { // behind it, and answered
			if _, err := way.from.WriteTo([]byte("hello"), way.to.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			if _, _, err := way.to.ReadFrom(make([]byte, 16)); err != nil {
				t.Errorf("what the host asks by %s: %v", host, err)
			}
		}
	}
	if got := run(t, "nft list chain inet seen in"); strings.Count(got, "packets 0 ") != 2 {
		t.Errorf("an endpoint reaches the host's address in an infra network:\n%s", got)
	}
}

// An endpoint of a bridged infra network sent to services that the host has at its address in an infra network of another
// tenant, or at its private address. It was not answered, but datagrams need no answer.
func TestAnInfraNetworkLeadsToNoAddressOfTheHostInAnother(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, infra := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() {
		run(t, "ip link del contivh0; ip link del world; ip link del contivh1; ip link del another; nft flush ruleset")
	})
	run(t, "set -- "+inside+" "+world+shareTopology+"\nset -- "+infra+atInfra+`
ip link add another type bridge; ip link set another group 194 up
ip addr add 198.18.8.1/24 dev another; ip addr add 2001:db8:8::1/64 dev another nodad
for to in 198.18.8.1 172.19.255.254; do nft add rule inet seen in iifname contivh1 ip daddr $to udp dport 7 counter; done
for to in 2001:db8:8::1 fd63:6f6e:7469:7601::fffe; do nft add rule inet seen in iifname contivh1 ip6 daddr $to udp dport 7 counter; done
nft add rule inet seen in iifname contivh1 ip daddr 198.18.9.1 udp dport 7 counter
nft add rule inet seen in iifname contivh1 ip6 daddr 2001:db8:9::1 udp dport 7 counter`)
	own := infraSourcesOf([]agent.HostNetwork{
		{Endpoint: &mastercfg.CfgEndpointState{IPAddress: "198.18.9.1", IPv6Address: "2001:db8:9::1"}},
		{Endpoint: &mastercfg.CfgEndpointState{IPAddress: "198.18.8.1", IPv6Address: "2001:db8:8::1"}},
	})
	for i, v := range []struct {
		table  table
		closed []string
	}{
		{tableForInfra(closed, 2000).withInfraGuard(own, nil), []string{"198.18.8.1", "2001:db8:8::1"}},
		{tableFor(wayOut, closed, "inb01", 2000).withInfraSources(own, wayOut), []string{"198.18.8.1", "2001:db8:8::1", "172.19.255.254", "fd63:6f6e:7469:7601::fffe"}},
	} {
		if err := new(rules).apply(t.Context(), v.table); err != nil {
			t.Fatal(err)
		}
		for _, to := range append(v.closed, "198.18.9.1", "2001:db8:9::1") { // the last two behind the others
			source := map[bool]string{true: "2001:db8:9::3", false: "198.18.9.3"}[strings.Contains(to, ":")]
			python(t, infra, from, source, to)
		}
		seen := func(to string) string { return run(t, "nft list chain inet seen in | grep 'daddr "+to+" '") }
		for _, to := range []string{"198.18.9.1", "2001:db8:9::1"} {
			testkit.Eventually(t, time.Minute, "a datagram to the host in the network itself, "+to, func() bool {
				return strings.Contains(seen(to), fmt.Sprintf("packets %d ", i+1))
			})
		}
		for _, to := range v.closed {
			if got := seen(to); !strings.Contains(got, "packets 0 ") {
				t.Errorf("an endpoint of an infra network reaches the host at %s:\n%s", to, got)
			}
		}
	}
}
