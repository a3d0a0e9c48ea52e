package hostaccess

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// Rules of other software on the host that masquerade all forwarded packets give no client the host's address:
// clients of services keep their own, and none reaches the infra networks of this node.
func TestMasqueradingOfOthersMakesNobodyTheHost(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; ip link del contivh1; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
ip link add contivh1 type veth peer name eth1 netns "$1"; ip link set contivh1 group 194 up; ip addr add 10.127.0.2/16 dev contivh1
ip route add 198.51.100.80/32 via 172.19.0.7; ip route add 2001:db8:5::80/128 via fd63:6f6e:7469:7601::7
nft add table inet others; nft add chain inet others late "{ type nat hook postrouting priority srcnat; }"; nft add rule inet others late masquerade
nsenter --net="$1" sh -ec '
ip link set eth1 up; ip addr add 10.127.0.3/16 dev eth1
nft add table inet seen; nft add chain inet seen in "{ type filter hook prerouting priority -300; }"
for from in "ip saddr 203.0.113.2" "ip saddr 172.19.255.254" "ip saddr 10.127.0.2" "ip6 saddr 2001:db8::2" "ip6 saddr fd63:6f6e:7469:7601::fffe"; do nft add rule inet seen in meta l4proto udp $from counter; done'
nsenter --net="$2" sh -ec 'ip route add default via 203.0.113.1; ip -6 route add default via 2001:db8::1'`)
	in := entrances{agent.Entrances{Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.80"), netip.MustParseAddr("2001:db8:5::80")}}, wayOut, nil}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in)); err != nil {
		t.Fatal(err)
	}
	send := func(to string) {
		t.Helper()
		run(t, `nsenter --net=`+world+` bash -c 'echo hello >/dev/udp/`+to+`/7'`)
	}
	arrived := func(from string) bool {
		return !strings.Contains(run(t, `nsenter --net=`+inside+` nft list chain inet seen in | grep "saddr `+from+`"`), "packets 0 ")
	}
	send("10.127.0.3")
	send("198.51.100.80")
	send("2001:db8:5::80") // behind them
	for _, from := range []string{"203.0.113.2", "2001:db8::2"} {
		testkit.Eventually(t, time.Minute, from+" reaches the service by its own address", func() bool { return arrived(from) })
	}
	for _, host := range []string{"172.19.255.254", "10.127.0.2", "fd63:6f6e:7469:7601::fffe"} {
		if arrived(host) {
			t.Errorf("who comes in passes for the host, as %s", host)
		}
	}
	run(t, "ping -c1 -W5 10.127.0.3 && ping -c1 -W5 172.19.0.7") // which the host itself reaches
}

// A machine outside that sends over IPv6 with an address of the host reaches no service: the kernel accepts such a
// packet, and policies do not apply to the host's. With its own address it does.
func TestNobodyElseSendsToServicesAsTheHost(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() {
		run(t, "ip link del contivh0; ip link del world; ip address del 2001:db8:9::1/128 dev lo; nft flush ruleset")
	})
	run(t, "set -- "+inside+" "+world+shareTopology+`
ip address add 2001:db8:9::1/128 dev lo nodad
ip route add 2001:db8:5::80/128 via fd63:6f6e:7469:7601::7
nft add rule inet seen there oifname contivh0 ip6 saddr 2001:db8:9::1 counter
nft add rule inet seen there oifname contivh0 ip6 saddr 2001:db8::2 counter
nsenter --net="$2" sh -ec '
ip address add 2001:db8:9::1/128 dev lo nodad; ip route add 2001:db8:5::80/128 via 2001:db8::1'`)
	in := entrances{agent.Entrances{Addresses: []netip.Addr{netip.MustParseAddr("2001:db8:5::80")}}, wayOut, nil}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in)); err != nil {
		t.Fatal(err)
	}
	sends := func(from string) {
		t.Helper()
		run(t, `nsenter --net=`+world+` `+testkit.Python+` -ISc '
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("`+from+`", 0)); s.sendto(b"hello", ("2001:db8:5::80", 7))'`)
	}
	sends("2001:db8:9::1")
	sends("2001:db8::2") // behind it
	testkit.Eventually(t, time.Minute, "what comes with a sender of its own arrives", func() bool {
		return !strings.Contains(run(t, "nft list chain inet seen there | grep 2001:db8::2"), "packets 0 ")
	})
	if got := run(t, "nft list chain inet seen there | grep 2001:db8:9::1"); !strings.Contains(got, "packets 0 ") {
		t.Errorf("it passes for the host: %s", got)
	}
}

// A machine outside answered an endpoint in the name of its host: the kernel forwards packets with the host's address
// as source over IPv6, and they belong to a connection.
func TestNobodyElseAnswersEndpointsAsTheHost(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, infra := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; ip link del contivh1; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+"\nset -- "+infra+atInfra+`
nsenter --net=`+world+` sh -ec 'ip link set lo up; ip address add 2001:db8:9::1/128 dev lo nodad; ip -6 route add default via 2001:db8::1'`)
	host, pod, stranger := datagrams(t, "/proc/thread-self/ns/net", "2001:db8:9::1", 5353), datagrams(t, infra, "2001:db8:9::3", 7777), datagrams(t, world, "2001:db8:9::1", 5353)
	say := func(from, to *net.UDPConn, what string) {
		t.Helper()
		if _, err := from.WriteTo([]byte(what), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(at *net.UDPConn, want string) {
		t.Helper()
		heard := make([]byte, 16)
		n, _, err := at.ReadFrom(heard)
		if got := string(heard[:n]); err != nil || got != want {
			t.Errorf("%s heard %q, %v, want %q", at.LocalAddr(), got, err, want)
		}
	}
	for _, table := range []table{tableForInfra(closed, 2000), tableFor(wayOut, closed, "inb01", 2000)} {
		if err := new(rules).apply(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		say(pod, host, "question")
		hear(host, "question")
		say(stranger, pod, "forged")
		run(t, "nsenter --net="+world+" ping -c1 -W5 2001:db8::1") // the host has dealt with what came before
		say(host, pod, "answer")
		hear(pod, "answer")
	}
}
