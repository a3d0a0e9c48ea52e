package hostaccess

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// A load balancer may put its address on an interface of the host. Service ports there lead to the switch, by the
// stand-in of the address: for the world, which keeps its addresses, and for the host. All other ports are the
// host's, and so are the same ports at its other addresses. A node port of UDP leads to an address of its own.
func TestTheHostLeadsToServicesAtItsOwnAddresses(t *testing.T) {
	testkit.NeedsMachine(t)
	vip, vip6 := netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("2001:db8:1::5")
	const tcp, udp = openflow.ProtoTCP, openflow.ProtoUDP
	in := entrances{agent.Entrances{
		NodePorts: []agent.NodePort{{Protocol: tcp, Port: 30080}, {Protocol: udp, Port: 30007}, {Protocol: udp, Port: 30008}},
		Balanced: []agent.Balanced{{Address: vip, NodePort: agent.NodePort{Protocol: tcp, Port: 81}}, {Address: vip, NodePort: agent.NodePort{Protocol: udp, Port: 53}},
			{Address: vip6, NodePort: agent.NodePort{Protocol: tcp, Port: 81}}, {Address: vip6, NodePort: agent.NodePort{Protocol: udp, Port: 53}}},
		StandIns: pipeline.NewStandIns([]netip.Addr{vip, vip6}, []uint16{30007, 30008}),
	}, wayOut, Everywhere()}
	var at, served []string
	for i, p := range wayOut.Prefixes() {
		mapped := []string{"::ffff:", ""}[i]
		balancer, known := in.StandIns.Balancer(p, []netip.Addr{vip, vip6}[i])
		seven, alone := in.StandIns.NodePort(p, udp, 30007)
		eight, _ := in.StandIns.NodePort(p, udp, 30008)
		if !known || !alone {
			t.Fatal("nothing stands in")
		}
		at = append(at, balancer.String(), seven.String(), eight.String())
		served = append(served, fmt.Sprint("tcp ", mapped, balancer, " 81"), fmt.Sprint("udp ", mapped, balancer, " 53"), fmt.Sprint("udp ", mapped, seven, " 30007"),
			fmt.Sprint("udp ", mapped, eight, " 30008"), fmt.Sprint("tcp ", mapped, pipeline.NodePorts(p), " 30080"))
	}
	playSwitch(t, in, append(at, "fd63:6f6e:7469:7601::5")...)
	run(t, "ip addr add 203.0.113.5/32 dev toworld; ip addr add 2001:db8:1::5/128 dev toworld nodad")
	table := tableFor(wayOut, closed, "inb01", 2000).with(in)
	rules := new(rules)
	if err := rules.apply(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	run(t, strings.ReplaceAll(elsewhere, "203.0.113.1,", "203.0.113.1, 203.0.113.5,"))
	if rules.listed == "" || rules.list(t.Context(), table) != rules.listed {
		t.Errorf("the table would be written again:\n%s", rules.listed)
	}
	answerIn(t, "switch", served...)
	answerIn(t, "", "tcp :: 6443", "tcp :: 81", "udp ::ffff:203.0.113.1 53")
	const world = "ip netns exec world "
	leads(t, []asked{
		{world, "tcp", "203.0.113.5", "81", "203.0.113.2"},
		{world, "tcp", "2001:db8:1::5", "81", "2001:db8:1::2"},
		{world, "udp", "203.0.113.5", "53", "203.0.113.2"},
		{world, "udp", "2001:db8:1::5", "53", "2001:db8:1::2"},
		{"", "tcp", "203.0.113.5", "81", "172.19.255.254"},
		{"", "tcp", "2001:db8:1::5", "81", "fd63:6f6e:7469:7601::fffe"},
		{"", "udp", "203.0.113.5", "53", "172.19.255.254"},
		{world, "udp", "203.0.113.1", "30007", "203.0.113.2"},
		{world, "udp", "203.0.113.5", "30008", "203.0.113.2"},
		{world, "udp", "2001:db8:1::1", "30008", "2001:db8:1::2"},
		{"", "udp", "203.0.113.1", "30007", "203.0.113.1"},
		{world, "tcp", "203.0.113.1", "30080", "203.0.113.2"},
		// Of the host.
		{world, "tcp", "203.0.113.5", "6443", "203.0.113.2"},
		{world, "tcp", "2001:db8:1::5", "6443", "2001:db8:1::2"},
		{"", "tcp", "203.0.113.5", "6443", "203.0.113.5"},
	})
	run(t, "nft delete table inet proxy")
	leads(t, []asked{{world, "tcp", "2001:db8:1::1", "81", "2001:db8:1::2"}, {world, "udp", "203.0.113.1", "53", "203.0.113.2"}})
	// The service is removed, and the port is the host's.
	in.Balanced = nil
	if err := rules.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in)); err != nil {
		t.Fatal(err)
	}
	leads(t, []asked{{world, "tcp", "203.0.113.5", "81", "203.0.113.2"}, {"", "tcp", "203.0.113.5", "81", "203.0.113.5"}})
}

// Ports that the host needs itself stay the host's at any address, even if a service has the port there.
func TestPortsThatTheHostNeedsAreLedToNoService(t *testing.T) {
	vip := netip.MustParseAddr("203.0.113.5")
	needs := Closed{VXLANPort: 4789, Ports: []uint16{9999}, Own: []uint16{6443}}
	var all []agent.Balanced
	for _, p := range []agent.NodePort{{Protocol: 6, Port: 9999}, {Protocol: 6, Port: 6443}, {Protocol: 17, Port: 4789}, {Protocol: 17, Port: 9999}, {Protocol: 6, Port: 443}} {
		all = append(all, agent.Balanced{Address: vip, NodePort: p})
	}
	if got := fmt.Sprint(needs.servable(all)); got != "[{203.0.113.5 {17 9999}} {203.0.113.5 {6 443}}]" {
		t.Errorf("led are %s", got)
	}
}

// The host forwards all datagrams of a connection as the first: connections that would be forwarded elsewhere now
// are deleted, and no others.
func TestDatagramsToWhatStandsInForSomethingElseAreForgotten(t *testing.T) {
	vip := netip.MustParseAddr("203.0.113.5")
	stand := pipeline.NewStandIns([]netip.Addr{vip}, []uint16{30007})
	in := entrances{agent.Entrances{NodePorts: []agent.NodePort{{Protocol: 17, Port: 30007}}, Balanced: []agent.Balanced{{Address: vip, NodePort: agent.NodePort{Protocol: 17, Port: 53}}}, StandIns: stand},
		wayOut, []netip.Prefix{netip.MustParsePrefix("203.0.113.1/32")}}
	s := staleDatagrams{hostPorts{outside: wayOut}, in, []netip.Addr{netip.MustParseAddr("203.0.113.1"), vip}}
	balancer, _ := stand.Balancer(wayOut.Prefix, vip)
	port, _ := stand.NodePort(wayOut.Prefix, 17, 30007)
	all := pipeline.NodePorts(wayOut.Prefix)
	for _, test := range []struct {
		asked  string
		served netip.AddrPort
		stale  bool
	}{
		{"203.0.113.5:53", netip.AddrPortFrom(balancer, 53), false},
		{"203.0.113.5:53", netip.MustParseAddrPort("203.0.113.5:53"), true}, // of before
		{"203.0.113.5:54", netip.AddrPortFrom(balancer, 54), true},
		{"203.0.113.5:30007", netip.AddrPortFrom(port, 30007), true}, // node ports are elsewhere
		{"203.0.113.6:53", netip.AddrPortFrom(balancer, 53), true},   // taken to another host
		{"203.0.113.1:30007", netip.AddrPortFrom(port, 30007), false},
		{"203.0.113.1:30007", netip.AddrPortFrom(all, 30007), true}, // of an earlier version
		{"203.0.113.1:53", netip.MustParseAddrPort("203.0.113.1:53"), false},
	} {
		asked := netip.MustParseAddrPort(test.asked)
		flow := &netlink.ConntrackFlow{
			Forward: netlink.IPTuple{Protocol: unix.IPPROTO_UDP, DstIP: asked.Addr().AsSlice(), DstPort: asked.Port()},
			Reverse: netlink.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: test.served.Addr().AsSlice(), SrcPort: test.served.Port()},
		}
		if got := s.MatchConntrackFlow(flow); got != test.stale {
			t.Errorf("asked %s, answered by %s: forgotten %v", asked, test.served, got)
		}
	}
}

// kept is an agent whose host has load balancers or not.
type kept struct {
	nothingWanted
	balancers bool
}

func (k *kept) HostAccess() (agent.HostAccess, error) {
	return agent.HostAccess{Balancers: k.balancers}, nil
}
func (k *kept) HostChanged() <-chan struct{} { return nil }

// While there are load balancers, the agent is notified at once when an address is added to or removed from any
// interface of the host.
// hosts sends the addresses that are reported to a channel.
type hosts struct {
	nobody
	here chan []netip.Addr
}

func (h hosts) HostHas(all []netip.Addr) { h.here <- all }

func TestAnAddressThatLoadBalancersPutOnTheHostIsTold(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip link add d0 type bridge; ip link set d0 up")
	t.Cleanup(func() { run(t, "ip link del d0") })
	told := hosts{here: make(chan []netip.Addr, 100)}
	node := &kept{balancers: true}
	m := New(Config{Datapath: node, Switch: Switch{Netdev: func() bool { return true }}, StateDir: t.TempDir(), Reports: told})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	vip := netip.MustParseAddr("203.0.113.5")
	await := func(want bool) {
		t.Helper()
		limit, stop := context.WithTimeout(t.Context(), auditEvery/2) // a change without a notification is found by then
		defer stop()
		for {
			select {
			case here := <-told.here:
				if slices.Contains(here, vip) == want {
					return
				}
			case <-limit.Done():
				t.Fatalf("nobody is told that the host has %s: %v", vip, want)
			}
		}
	}
	await(false)
	for range 3 { // after the subscription it polls some times without a notification
		run(t, "ip addr add 203.0.113.5/32 dev d0")
		await(true)
		run(t, "ip addr del 203.0.113.5/32 dev d0")
		await(false)
	}
	cancel()
	<-ended
}
