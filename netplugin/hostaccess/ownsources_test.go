package hostaccess

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// A machine outside that sends over IPv6 with an address of the host reaches no service by it: the kernel takes such a packet, and
// policies do not judge what the host sends. With its own address it does.
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
		run(t, `nsenter --net=`+world+` python3 -c '
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
