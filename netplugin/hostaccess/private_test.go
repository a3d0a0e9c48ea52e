package hostaccess

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// from sends a datagram with a chosen source address.
const from = `
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0)); s.sendto(b"hello", (sys.argv[2], 7))`

// Packets of an endpoint that the connection tracker does not translate, such as unsolicited answers, reached
// other hosts with the private address, which their endpoints have, too: these got the hosts' answers.
func TestNoPacketLeavesWithAPrivateAddress(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nft add chain inet seen come '{ type filter hook prerouting priority 0; }'
nft add rule inet seen come iifname contivh0 ct state invalid counter
nsenter --net="$2" sh -ec '
nft add table inet seen; nft add chain inet seen here "{ type filter hook prerouting priority -300; }"
nft add rule inet seen here ip saddr 172.19.0.0/16 counter
nft add rule inet seen here ip6 saddr fd63:6f6e:7469:7601::/64 counter
nft add rule inet seen here ip saddr 203.0.113.1 udp dport 7 counter
nft add rule inet seen here ip6 saddr 2001:db8::1 udp dport 7 counter'`)
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	python(t, inside, unasked, "203.0.113.2", "172.19.0.7")
	python(t, inside, unasked, "2001:db8::2", "")
	testkit.Eventually(t, time.Minute, "all have come to the host", func() bool {
		return strings.Contains(run(t, "nft list chain inet seen come"), "packets 4 ")
	})
	python(t, inside, from, "172.19.0.7", "203.0.113.2") // behind them
	python(t, inside, from, "fd63:6f6e:7469:7601::7", "2001:db8::2")
	seen := func(source string) string {
		return run(t, "nsenter --net="+world+" nft list chain inet seen here | grep 'saddr "+source+"'")
	}
	for _, masqueraded := range []string{"203.0.113.1", "2001:db8::1"} {
		testkit.Eventually(t, time.Minute, "others leave as "+masqueraded, func() bool { return strings.Contains(seen(masqueraded), "packets 1 ") })
	}
	for _, private := range []string{"172.19.0.0/16", "fd63:6f6e:7469:7601::/64"} {
		if got := seen(private); !strings.Contains(got, "packets 0 ") {
			t.Errorf("packets leave with a private address: %s", got)
		}
	}
}

// A machine outside sent the host packets with an endpoint's address, and the endpoint got the host's answers.
func TestNoPacketArrivesWithAPrivateAddress(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nft add rule inet seen in iifname world ip saddr 172.19.0.7 counter
nft add rule inet seen in iifname world ip6 saddr fd63:6f6e:7469:7601::7 counter
nft add rule inet seen in iifname world ip saddr 203.0.113.2 udp dport 7 counter
nft add rule inet seen in iifname world ip6 saddr 2001:db8::2 udp dport 7 counter
nsenter --net="$2" sh -ec 'ip addr add 172.19.0.7/32 dev lo; ip addr add fd63:6f6e:7469:7601::7/128 dev lo nodad'`)
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	python(t, world, from, "172.19.0.7", "203.0.113.1")
	python(t, world, from, "fd63:6f6e:7469:7601::7", "2001:db8::1")
	python(t, world, from, "203.0.113.2", "203.0.113.1") // behind them
	python(t, world, from, "2001:db8::2", "2001:db8::1")
	seen := func(rule string) string { return run(t, "nft list chain inet seen in | grep '"+rule+"'") }
	for _, own := range []string{"203.0.113.2", "2001:db8::2"} {
		testkit.Eventually(t, time.Minute, "others arrive from "+own, func() bool { return strings.Contains(seen("saddr "+own), "packets 1 ") })
	}
	for _, private := range []string{"172.19.0.7", "fd63:6f6e:7469:7601::7"} {
		if got := seen("saddr " + private); !strings.Contains(got, "packets 0 ") {
			t.Errorf("packets arrive with a private address: %s", got)
		}
	}
	run(t, "ping -c1 -W5 172.19.0.7") // which the host itself reaches
}

// Other software may begin to use addresses of the private subnet while endpoints leave by the host, which netctl check
// says: what the host and its guests reach there by a more specific route is of no endpoint.
func TestWhatIsReachedByAnotherLinkMayHavePrivateAddresses(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, far := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; ip link del far; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+" "+far+shareTopology+`
ip link add far type veth peer name eth0 netns "$3"
ip addr add 172.19.5.1/24 dev world; ip addr add 192.0.2.1/24 dev far; ip link set far up
nsenter --net="$2" sh -ec 'ip addr add 172.19.5.2/24 dev eth0; ip route add default via 172.19.5.1'
nsenter --net="$3" sh -ec 'ip link set eth0 up; ip addr add 192.0.2.2/24 dev eth0; ip route add default via 192.0.2.1'`)
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	run(t, "ping -c1 -W5 172.19.5.2")
	run(t, "nsenter --net="+far+" ping -c1 -W5 172.19.5.2")
	run(t, "ping -c1 -W5 172.19.0.7") // an endpoint
}
