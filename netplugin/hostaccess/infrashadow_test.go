package hostaccess

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// Where other software masquerades all that leaves, an endpoint of a bridged infra network that sent to another node from
// the port of tunnels took what that node then sent this host there.
func TestNoEndpointOfAnInfraNetworkTakesTheHostsPorts(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world, infra := fakenode.NewNamespace(t), fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() {
		run(t, "ip link del contivh0; ip link del world; ip link del contivh1; nft flush ruleset")
	})
	run(t, "set -- "+inside+" "+world+shareTopology+"\nset -- "+infra+atInfra+`
nft add table inet others; nft add chain inet others post '{ type nat hook postrouting priority srcnat; }'; nft add rule inet others post oifname world masquerade`)
	guarded := Closed{VXLANPort: 4789, Nodes: []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}}
	for name, table := range map[string]table{"no way out": tableForInfra(guarded, 2000), "a way out": tableFor(wayOut, guarded, "inb01", 2000)} {
		if err := new(rules).apply(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		for _, v := range []struct{ pod, host, peer string }{
			{"198.18.9.3", "203.0.113.1", "203.0.113.2"}, {"2001:db8:9::3", "2001:db8::1", "2001:db8::2"},
		} {
			run(t, "conntrack -F 2>/dev/null")
			pod, host, peer := datagrams(t, infra, v.pod, 4789), datagrams(t, "/proc/thread-self/ns/net", v.host, 4789), datagrams(t, world, v.peer, 40000)
			if _, err := pod.WriteTo([]byte("pod"), peer.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			if _, err := peer.WriteTo([]byte("node"), &net.UDPAddr{IP: net.ParseIP(v.host), Port: 4789}); err != nil {
				t.Fatal(err)
			}
			if err := host.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := host.ReadFrom(make([]byte, 16)); err != nil {
				t.Errorf("%s: %s does not get what %s sends into a tunnel: %v", name, v.host, v.peer, err)
			}
			for _, c := range []*net.UDPConn{pod, host, peer} {
				_ = c.Close()
			}
		}
	}
}
