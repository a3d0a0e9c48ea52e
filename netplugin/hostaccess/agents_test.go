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

// begun begins a TCP connection, and waits for nothing.
const begun = `
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
s.connect_ex((sys.argv[1], int(sys.argv[2])))`

// An agent of another node may have any port for its REST server, which endpoints do not reach there; other machines may have servers
// for them at that port.
func TestEndpointsDoNotReachAgentsAtOtherPorts(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nft add rule inet seen there oifname world tcp dport 9191 ip daddr 203.0.113.2 counter
nft add rule inet seen there oifname world tcp dport 9191 ip6 daddr 2001:db8::2 counter
nft add rule inet seen there oifname world tcp dport 9191 ip daddr 203.0.113.3 counter
nft add rule inet seen there oifname world tcp dport 9191 ip6 daddr 2001:db8::3 counter`)
	of := agent.HostAccess{AgentPorts: []netip.AddrPort{netip.MustParseAddrPort("203.0.113.2:9191"), netip.MustParseAddrPort("[2001:db8::2]:9191")}}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed.with(of, stores{}), "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"203.0.113.2", "2001:db8::2", "203.0.113.3", "2001:db8::3"} {
		python(t, inside, begun, to, 9191)
	}
	seen := func(to string) string { return run(t, "nft list chain inet seen there | grep 'daddr "+to+"'") }
	for _, other := range []string{"203.0.113.3", "2001:db8::3"} {
		testkit.Eventually(t, time.Minute, "other machines are reached at "+other, func() bool { return !strings.Contains(seen(other), "packets 0 ") })
	}
	for _, node := range []string{"203.0.113.2", "2001:db8::2"} {
		if got := seen(node); !strings.Contains(got, "packets 0 ") {
			t.Errorf("the agent is reached: %s", got)
		}
	}
}
