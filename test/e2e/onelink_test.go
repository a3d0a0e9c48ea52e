package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// Two machines have one link each for their addresses and all traffic: egress, control, tunnels, VLANs and clients
// of node ports. They are reached whichever daemon is killed, over one connection from before the start of
// netplugin; and after netplugin has been removed they are as before, twice.
func TestLongANodeMayHaveOneLinkForAll(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBedFor(t, 10*time.Minute, testbed.Config{Nodes: 2, Uplinks: 1, Bare: true})
	s := story{t, ctx, bed}
	s.oneLinkEach()
	for _, n := range bed.Nodes {
		s.must(n.StartNetmaster())
	}
	near, far := s.sandbox(0, "near", "blue", "front", ""), s.sandbox(1, "far", "blue", "front", "")
	lan1, lan2 := s.sandbox(0, "lan1", "blue", "lan", ""), s.sandbox(1, "lan2", "blue", "lan", "")
	pods := []*testbed.Pod{near, far, lan1, lan2}
	host, outside := bed.Nodes[0], s.beyond("")
	server, err := host.Start("echo", host.Tool("probe"), "serve", "-echo", hostEchoPort)
	s.must(err)
	s.afterwards(func(context.Context) error { return server.Kill() })
	s.soon(shortly, func() error { return s.settled(bed.Nodes...) })
	before := []string{s.picture(bed.Nodes[0]), s.picture(bed.Nodes[1])}
	connection := flow{name: "connection", from: outside, to: netip.MustParseAddr(host.MgmtIP), port: hostEchoPort, tcp: true, every: 20 * time.Millisecond}
	connections := s.begin(connection)
	defer kill(connections)

	s.startAgents()
	s.netctl("tenant", "create", "blue")
	s.netctl(strings.Fields("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe front")...)
	s.netctl(strings.Fields("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 lan")...)
	s.netctl(strings.Fields("service create -t blue -s front -l app=web -ip 10.1.1.200 -ip6 fd00:1::c8 -x " + outsideVIP +
		" -p " + tcpPort + ":80:TCP -n " + tcpNodePort + ":" + tcpPort + ":TCP web")...)
	for i, n := range bed.Nodes {
		s.netctl(strings.Fields(fmt.Sprintf("bgp create %s --router-ip %s/24 --as 65001 --neighbor-as 65001 --neighbor %s", n.Name, nodeAddress(i), nodeAddress(1-i)))...)
	}
	far.Labels = map[string]string{"app": "web"}
	works := func() {
		s.Helper()
		s.hostsAreReached()
		s.reachEachOther(shortly, near, far)
		s.reachEachOther(shortly, lan1, lan2)
		s.pings(near, theirWorld)
		s.servedOutside(net.JoinHostPort(host.MgmtIP, tcpNodePort), net.JoinHostPort(outsideVIP, tcpPort))
	}
	for _, p := range pods {
		s.must(p.Attach(ctx))
		s.serve(p)
	}
	works()

	s.killAgents()
	works()
	s.startAgents()
	works()
	s.must(host.KillVSwitchd())
	s.must(host.StartOVS(ctx))
	works()
	s.killAgents()
	for _, n := range bed.Nodes {
		s.must(n.KillVSwitchd())
		s.must(n.StartOVS(ctx))
	}
	s.hostsAreReached() // while no agent runs
	s.startAgents()
	works()

	asBefore := func() {
		s.Helper()
		s.killAgents()
		for i, n := range bed.Nodes {
			out, err := n.Run(ctx, n.Tool("netplugin"), "cleanup")
			s.must(err)
			s.hostsAreReached()
			s.soon(shortly, func() error { return s.settled(n) })
			if diff := cmp.Diff(strings.Split(before[i], "\n"), strings.Split(s.picture(n), "\n")); diff != "" {
				s.Errorf("%s is not as it was (-before +after):\n%s\n%s", n.Name, diff, out)
			}
		}
	}
	asBefore()
	s.startAgents()
	for _, p := range pods {
		s.must(p.Attach(ctx))
	}
	works()
	asBefore()
	if r := s.ended([]flow{connection}, connections)[0]; r.Lost != 0 || r.Sent == 0 {
		t.Errorf("of the connection to %s, %d of %d did not come back", host.Name, r.Lost, r.Sent)
	}
}

// hostEchoPort is where a host echoes connections, theirWorld an address beyond its egress.
const (
	hostEchoPort = "7007"
	theirWorld   = "198.51.100.254"
)

// oneLinkEach leaves the nodes their first uplink only, which has everything then. Like a machine's link, it sends
// complete checksums.
func (s story) oneLinkEach() {
	s.Helper()
	_, err := s.bed.Outside.Run(s.ctx, "sh", "-ec", `
ip address add `+hostRouter4+`/24 dev native
ip address add `+hostRouter6+`/64 dev native nodad
ip address add `+theirWorld+`/32 dev lo
ip route add `+outsideVIP+` via 203.0.113.1`)
	s.must(err)
	for i, n := range s.bed.Nodes {
		n.MgmtIP = fmt.Sprint("203.0.113.", i+1)
		n.VTEPIP = n.MgmtIP
		_, err := n.Run(s.ctx, "sh", "-ec", `
ip address flush dev eth0
ip link set eth0 down
ip link set uplink down
ethtool -K eth1 tx off >/dev/null
ip address add "$1/24" dev eth1
ip address add "$2/64" dev eth1 nodad
ip route add default via `+hostRouter4+` proto static
ip -6 route add default via `+hostRouter6+` dev eth1`, "sh", n.MgmtIP, hostOwn6(i))
		s.must(err)
		s.must(n.StartOVS(s.ctx))
	}
}

// hostOwn6 is the IPv6 address of a node.
func hostOwn6(node int) string { return fmt.Sprint("2001:db8:113::", node+1) }

// hostsAreReached expects that the machine outside reaches all hosts, and they the world behind it.
func (s story) hostsAreReached() {
	s.Helper()
	for i, n := range s.bed.Nodes {
		s.pings(s.bed.Outside, n.MgmtIP)
		s.pings(s.bed.Outside, hostOwn6(i))
		s.pings(n, theirWorld)
	}
}

// settled returns an error for nodes with a tentative address (duplicate address detection), whose routes follow
// after that.
func (s story) settled(nodes ...*testbed.Node) error {
	for _, n := range nodes {
		if _, err := n.Run(s.ctx, "sh", "-ec", "! ip -6 address | grep -q tentative"); err != nil {
			return fmt.Errorf("%s has an address that is tentative: %w", n.Name, err)
		}
	}
	return nil
}

func (s story) startAgents() {
	s.Helper()
	for _, n := range s.bed.Nodes {
		s.must(n.StartNetplugin())
	}
	for _, n := range s.bed.Nodes {
		s.must(n.WaitReady(s.ctx))
		s.must(n.WaitWayOut(s.ctx))
	}
}

func (s story) killAgents() {
	s.Helper()
	for _, n := range s.bed.Nodes {
		s.must(n.Netplugin().Kill())
	}
}
