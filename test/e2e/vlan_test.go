package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

func TestNodesHaveAPhysicalNetwork(t *testing.T) {
	tellOn(t, testbed.Config{Nodes: 2, Uplinks: 1}, []chapter{
		{"networks on VLANs reach their own, the router, and each other by it; those in tunnels go on beside them", vlansBesideTunnels},
		{"networks on VLANs may have IPv6 only", func(s story) { podsWithIPv6Only(s, landscape{"bridge", "vlan"}) }},
		{"a service on a VLAN answers pods at its addresses, pings too, and nobody outside", func(s story) { aServiceAnswers(s, landscape{"bridge", "vlan"}) }},
		{"a pod that moves to another node is found; hosts keep their addresses on uplinks while agents and switches are killed", podsMoveAndHostsStay},
		{"when an uplink returns, the network outside is told where pods are", anUplinkReturns},
		{"bridged networks, in tunnels and on VLANs, are told names at a well-known address", namesInBridgedNetworks},
		{"routed VLANs are told names at their gateways", namesOnRoutedVLANs},
		{"a service in a tunnel's network and one on a routed VLAN have the containers of their own kind", servicesOfTwoKinds},
	})
}

// The physical network: two VLANs that a router joins.
const (
	lanVLAN, lanRouter4, lanRouter6 = 107, "10.1.7.1", "fd00:7::1"
	dmzVLAN, dmzRouter4, dmzRouter6 = 108, "10.1.8.1", "fd00:8::1"
)

// vlan makes a VLAN outside until the story is over, with the router in it.
func (s story) vlan(id uint16, router4, router6 string) {
	s.Helper()
	s.must(s.bed.AddVLAN(s.ctx, id, netip.MustParsePrefix(router4+"/24"), netip.MustParsePrefix(router6+"/64")))
	s.afterwards(func(ctx context.Context) error { return s.bed.RemoveVLAN(ctx, id) })
}

// onVLAN makes a network of blue on a VLAN.
func (s story) onVLAN(name string, id uint16, router4, router6 string) {
	s.Helper()
	s.vlan(id, router4, router6)
	subnet4, subnet6 := strings.TrimSuffix(router4, "1")+"0/24", strings.TrimSuffix(router6, "1")+"/64"
	s.netctlForNow(fmt.Sprintf("network create -t blue -e vlan -p %d -s %s -g %s -s6 %s -g6 %s %s", id, subnet4, router4, subnet6, router6, name),
		"network rm -t blue "+name)
}

func vlansBesideTunnels(s story) {
	s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	s.tenant("blue")
	s.onVLAN("lan", lanVLAN, lanRouter4, lanRouter6)
	s.onVLAN("dmz", dmzVLAN, dmzRouter4, dmzRouter6)
	s.netctlForNow("network create -t blue -s 10.1.9.0/24 inner", "network rm -t blue inner")
	s.netctlForNow("policy create -t blue guard", "policy rm -t blue guard")
	s.netctlForNow("group create -t blue -p guard dmz quiet", "group rm -t blue quiet")
	lan1, lan2 := s.pod(0, "lan1", "blue", "lan", ""), s.pod(1, "lan2", "blue", "lan", "")
	dmz1, dmz2 := s.pod(0, "dmz1", "blue", "dmz", "quiet"), s.pod(1, "dmz2", "blue", "dmz", "")
	inner := []*testbed.Pod{s.pod(0, "inner1", "blue", "inner", ""), s.pod(1, "inner2", "blue", "inner", "")}

	s.reachEachOther(shortly, lan1, lan2, dmz1, dmz2)
	s.reachEachOther(shortly, inner...)
	s.reachByIPv6([]*testbed.Pod{lan1, lan2})
	s.reachByIPv6([]*testbed.Pod{lan1, dmz2}) // by the router
	for _, router := range []string{lanRouter4, lanRouter6} {
		s.pings(lan1, router)
	}
	s.pings(s.bed.Outside, dmz1.IP.String())
	for way, who := range s.asked(lan1, inner[1].IP) {
		if who != "" {
			s.Errorf("a pod on a VLAN reaches %s in a tunnel by %s", inner[1].IP, way)
		}
	}

	s.isService("lan", "10.1.7.200", lan2, lan1, lan2)

	// Rules apply on the VLAN and behind the router, on the sender's node and on another one.
	s.netctl(strings.Fields("policy rule-add -t blue -d in -l udp -P 7 -j deny guard quiet")...)
	for _, from := range []*testbed.Pod{dmz2, lan1, lan2} {
		s.soon(shortly, func() error { return isGuarded(s.ctx, from, dmz1) })
	}

	node := s.bed.Nodes[0]
	before := s.programmed(node)
	s.withoutLoss(lan1, dmz2, func() {
		for _, n := range s.bed.Nodes {
			s.must(n.Netplugin().Kill())
			s.must(n.StartNetplugin())
			s.must(n.WaitReady(s.ctx))
		}
	})
	s.must(node.KillVSwitchd())
	s.must(node.StartOVS(s.ctx))
	took := s.soon(shortly, func() error { return reaches(s.ctx, lan1, dmz2) })
	s.Logf("%s after the switch answered, pods reach each other", took)
	s.isGuardedAgain(dmz2, dmz1)
	s.reachEachOther(shortly, inner...)
	s.soon(shortly, func() error {
		if now := s.programmed(node); now != before {
			return fmt.Errorf("before:\n%s\nand after the switch and the agent were killed:\n%s", before, now)
		}
		return nil
	})
}

// The pods of both networks have the labels of both services. Those of the other kind are on another bridge.
func servicesOfTwoKinds(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 wire", "network rm -t blue wire")
	s.netctlForNow("network create -t blue -s 10.1.9.0/24 -g 10.1.9.254 tunnel", "network rm -t blue tunnel")
	vips, clients := map[string]string{"wire": "10.1.7.200", "tunnel": "10.1.9.200"}, map[string]*testbed.Pod{}
	for network, vip := range vips {
		s.netctlForNow("service create -t blue -s "+network+" -l app=web -ip "+vip+" -p "+tcpPort+":"+tcpPort+":TCP -p "+echoPort+":7:UDP of-"+network,
			"service rm -t blue of-"+network)
		clients[network] = s.pod(0, "client-"+network, "blue", network, "")
		s.container("start", s.pod(0, "web-"+network, "blue", network, ""), map[string]string{"app": "web"})
	}
	for network, vip := range vips {
		client, server := clients[network], "web-"+network
		s.servedAt(vip, []*testbed.Pod{client}, server)
		for range 12 { // each connection, as the other would be chosen for every second one
			got, err := ask(s.ctx, client, netip.MustParseAddr(vip), time.Second)
			if s.must(err); got["tcp"] != server || got["udp"] != server {
				s.Errorf("%s asks and gets %v, want %s", client.Name, got, server)
			}
		}
	}
}

func podsMoveAndHostsStay(s story) {
	s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	s.tenant("blue")
	s.onVLAN("lan", lanVLAN, lanRouter4, lanRouter6)
	s.moves(s.pod(1, "lan2", "blue", "lan", ""), 0)
	s.hostsHaveAddresses()
	for _, n := range s.bed.Nodes {
		s.must(n.Netplugin().Kill())
		s.must(n.KillVSwitchd())
		s.must(n.StartOVS(s.ctx))
	}
	s.hostsReachEachOther() // while no agent runs
	for _, n := range s.bed.Nodes {
		s.must(n.StartNetplugin())
		s.must(n.WaitReady(s.ctx))
	}
	s.hostsReachEachOther()
}

// moves deletes a pod and creates one with its address, and so its MAC, on another node. The router, with its
// entry for the first one, finds the second one.
func (s story) moves(pod *testbed.Pod, to int) {
	s.Helper()
	s.pings(s.bed.Outside, pod.IP.String())
	six := s.ipv6Of(pod)
	s.must(pod.Delete(s.ctx))
	var moved *testbed.Pod
	s.isToldOutside(s.bed.Nodes[to], gratuitousARP(pod.IP), func() {
		var err error
		moved, err = s.bed.Nodes[to].AddPod(s.ctx, "moved", pod.Tenant, pod.Network, pod.Group)
		s.must(err)
	})
	if moved.IP != pod.IP {
		s.Fatalf("the next pod got %s, not %s", moved.IP, pod.IP)
	}
	s.Logf("the router reaches the pod on its new node after %s", s.pings(s.bed.Outside, pod.IP.String()))
	s.must(moved.Delete(s.ctx))
	s.must(pod.MakeSandbox(s.ctx)) // so that it ends as at the beginning
	pod.Wanted = []netip.Addr{pod.IP, six}
	s.isToldOutside(pod.Node, unsolicitedAdvertisement(six, macOf(pod.IP)), func() { s.must(pod.Attach(s.ctx)) })
	s.serve(pod)
	s.pings(s.bed.Outside, pod.IP.String())
}

// gratuitousARP matches a broadcast ARP request of an address for itself (RFC 5227, 3), as a pod's kernel sends
// it: an agent that announces pods pads it to 60 bytes.
func gratuitousARP(own netip.Addr) string {
	return fmt.Sprintf("ether daddr ff:ff:ff:ff:ff:ff ether saddr %[2]s arp operation request arp saddr ether %[2]s arp saddr ip %[1]s arp daddr ip %[1]s meta length 28", own, macOf(own))
}

// unsolicitedAdvertisement matches the neighbour advertisement of an address to all nodes (RFC 4861, 7.2.6): it
// has the override flag, neither the solicited nor the router flag, and the MAC behind the address.
func unsolicitedAdvertisement(own netip.Addr, mac string) string {
	return fmt.Sprintf("ether daddr 33:33:00:00:00:01 ether saddr %s ip6 saddr %s ip6 daddr ff02::1 ip6 hoplimit 255 icmpv6 type nd-neighbor-advert "+
		"@th,32,32 0x20000000 @th,64,128 0x%x @th,192,64 0x0201%s", mac, own, own.As16(), strings.ReplaceAll(mac, ":", ""))
}

// isToldOutside expects a frame on the VLAN outside, by the uplink of a node, after a step.
func (s story) isToldOutside(n *testbed.Node, frame string, step func()) {
	s.Helper()
	outside := ear{"the switch outside", s.beyond(""), fmt.Sprint(s.bed.Outside.Port(n, 1), ".", lanVLAN)}
	s.listens(outside, frame)
	step()
	s.soon(shortly, func() error {
		if s.heard(outside) == 0 {
			return fmt.Errorf("%s does not hear by %s: %s", outside.name, n.Name, frame)
		}
		return nil
	})
}

// hostsHaveAddresses gives the nodes addresses on their uplinks, 203.0.113.1 and so on.
func (s story) hostsHaveAddresses() {
	s.Helper()
	for i, n := range s.bed.Nodes {
		address := fmt.Sprintf("203.0.113.%d/24", i+1)
		_, err := n.Run(s.ctx, "ip", "address", "add", address, "dev", testbed.UplinkName(1))
		s.must(err)
		s.afterwards(func(ctx context.Context) error {
			_, err := n.Run(ctx, "ip", "address", "del", address, "dev", "contivUplink")
			return err
		})
	}
	s.hostsReachEachOther()
}

// hostsReachEachOther expects the addresses on the bridge of the uplinks, and an answer.
func (s story) hostsReachEachOther() {
	s.Helper()
	s.soon(shortly, func() error {
		for i, n := range s.bed.Nodes {
			out, err := n.Run(s.ctx, "ip", "-4", "-o", "address", "show")
			if err != nil {
				return err
			}
			if address := fmt.Sprintf("203.0.113.%d/24", i+1); !strings.Contains(out, "contivUplink    inet "+address) || strings.Count(out, address) != 1 {
				return fmt.Errorf("%s has not moved to contivUplink:\n%s", address, out)
			}
		}
		_, err := s.bed.Nodes[0].Run(s.ctx, "ping", "-c1", "-W1", "-n", "-q", "203.0.113.2")
		return err
	})
}

// programmed returns the content of a node's bridges, sorted.
func (s story) programmed(n *testbed.Node) string {
	s.Helper()
	out, err := n.Run(s.ctx, "sh", "-ec", `
for bridge in contivVxlanBridge contivVlanBridge; do for what in flows groups meters; do
  ovs-ofctl -O OpenFlow13 --no-stats dump-$what $bridge
done; done | grep -v 'OFPST_.* reply' | sed 's/cookie=[^,]*, //' | sort`)
	s.must(err)
	return out
}

// asked sends a request to an address that should not answer.
func (s story) asked(from *testbed.Pod, address netip.Addr) map[string]string {
	s.Helper()
	got, err := ask(s.ctx, from, address, 500*time.Millisecond)
	s.must(err)
	return got
}
