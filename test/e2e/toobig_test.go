package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// A pod speaks with a machine beyond an external router whose next link has the smallest MTU of the path, and
// receives the ICMP errors of that router and of the machine about its packets.
func TestLongTheOutsideIsReachedByTheSmallLinkOfARouter(t *testing.T) {
	testkit.TakesLong(t)
	tell(t, 2, []chapter{
		{"TCP finds the size of packets, and errors of both versions of IP find the pod", beyondASmallLink},
		{"they find the provider of a service, on whatever node, too", servicesForASmallLink},
	})
}

func beyondASmallLink(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe both", "network rm -t blue both")
	pod, host := s.pod(0, "pod", "blue", "both", ""), s.bed.Nodes[0]
	s.smallLink(host)
	for _, command := range []string{"iperf3 -s", host.Tool("probe") + " serve -name world -tcp " + tcpPort + " -udp " + echoPort} {
		server, err := host.Start("world", append([]string{"ip", "netns", "exec", "world"}, strings.Fields(command)...)...)
		s.must(err)
		s.afterwards(func(context.Context) error { return server.Kill() })
	}
	for _, to := range []string{world4, world6} {
		s.soon(shortly, func() error {
			got, err := ask(s.ctx, pod, netip.MustParseAddr(to), 2*time.Second)
			if err == nil && (got["ping"] != "pong" || got["tcp"] != "world" || got["udp"] != "world") {
				err = fmt.Errorf("%s: %v", to, got)
			}
			return err
		})
		_, err := pod.Run(s.ctx, "sh", "-ec", "ip route flush cache; ip -6 route flush cache")
		s.must(err)
		if out, err := pod.Run(s.ctx, "timeout", "30", "iperf3", "-c", to, "-n", "4M"); err != nil {
			s.Errorf("TCP to %s: %v %s", to, err, out)
		}
		s.says(pod, "mtu "+small, "ip", "route", "get", to)
		s.isTold(pod, to, small, "1400")
		s.says(pod, "From (198.18.6.2|2001:db8:6::2).*exceeded", "ping", "-n", "-c1", "-W1", "-t3", to)
		s.says(pod, "onnection refused", "bash", "-c", "exec 3<>/dev/udp/"+to+"/9; echo >&3; sleep 0.1; echo >&3")
		s.says(pod, "onnection refused", "bash", "-c", "exec 3<>/dev/tcp/"+to+"/9")
	}
}

// small is the MTU of the link, in bytes; the far end announces a larger MSS, so that senders depend on ICMP
// errors.
const small = "1300"

// smallLink makes the world behind an external router of a host.
func (s story) smallLink(host *testbed.Node) {
	s.Helper()
	s.afterwards(func(ctx context.Context) error {
		_, err := host.Run(ctx, "sh", "-c", "ip netns delete world; ip netns delete router")
		return err
	})
	_, err := host.Run(s.ctx, "sh", "-ec", `
ip netns add router
ip netns add world
ip link add router type veth peer name near netns router
ip -n router link add far mtu `+small+` type veth peer name eth0 netns world
ip netns exec router sysctl -q net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip -n router address add 198.18.6.2/24 dev near
ip -n router address add 2001:db8:6::2/64 dev near nodad
ip -n router address add 203.0.113.1/24 dev far
ip -n router address add 2001:db8:52::1/64 dev far nodad
ip -n router link set near up
ip -n router link set far up
ip -n router link set lo up
ip -n world address add `+world4+`/24 dev eth0
ip -n world address add `+world6+`/64 dev eth0 nodad
ip -n world link set eth0 up
ip -n world link set lo up
ip -n world route add default via 203.0.113.1
ip -n world route add default via 2001:db8:52::1
ip address add 198.18.6.1/24 dev router
ip address add 2001:db8:6::1/64 dev router nodad
ip link set router up
ip route add 203.0.113.0/24 via 198.18.6.2
ip route add 2001:db8:52::/64 via 2001:db8:6::2
ip -n router route add `+outsideVIP+` via 198.18.6.1
ip -n router route add `+outsideVIP6+` via 2001:db8:6::1`)
	s.must(err)
}

// servicesForASmallLink has the world read more than fits, from two services that share addresses of the host's
// and the host's own.
func servicesForASmallLink(s story) {
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe both", "network rm -t blue both")
	host := s.bed.Nodes[0]
	s.smallLink(host)
	for node, service := range []struct{ name, vip, vip6, port, nodePort string }{
		{"local", "10.1.1.200", "fd00:1::c8", "5201", "30521"},
		{"distant", "10.1.1.201", "fd00:1::c9", "5202", "30522"},
	} {
		provider := s.sandbox(node, service.name, "blue", "both", "")
		provider.Labels = map[string]string{"app": service.name}
		s.must(provider.Attach(s.ctx))
		server, err := provider.Start("iperf3", "iperf3", "-s")
		s.must(err)
		s.afterwards(func(context.Context) error { return server.Kill() })
		s.netctlForNow(fmt.Sprintf("service create -t blue -s both -l app=%s -ip %s -ip6 %s -x %s -x %s -p %s:5201:TCP -n %s:%[6]s:TCP %[1]s", service.name,
			service.vip, service.vip6, outsideVIP, outsideVIP6, service.port, service.nodePort), "service rm -t blue "+service.name)
		for _, at := range []struct{ address, port string }{
			{outsideVIP, service.port}, {outsideVIP6, service.port}, {"198.18.6.1", service.nodePort}, {"2001:db8:6::1", service.nodePort},
		} {
			_, err := provider.Run(s.ctx, "sh", "-ec", "ip route flush cache; ip -6 route flush cache")
			s.must(err)
			s.soon(shortly, func() error {
				out, err := host.Run(s.ctx, "ip", "netns", "exec", "world", "timeout", "10", "iperf3", "-c", at.address, "-p", at.port, "-R", "-n", "4M")
				if err != nil {
					err = fmt.Errorf("the world reads of the %s provider at %s, port %s: %w %s", service.name, at.address, at.port, err, out)
				}
				return err
			})
			s.says(provider, "mtu "+small, "sh", "-c", "ip route show cache; ip -6 route show cache; ip route get "+world4+"; ip route get "+world6)
		}
	}
}

// Pods on VLANs have the MTU of the uplinks, whatever that is. In routed VLANs, where nodes are routers, pods that
// send larger packets get ICMP errors.
func TestLongPodsOnVLANsHaveTheMTUOfTheUplinks(t *testing.T) {
	testkit.TakesLong(t)
	for _, mtu := range []int{1400, 1500, 9000} {
		t.Run(strconv.Itoa(mtu), func(t *testing.T) {
			ctx, bed := newBareBed(t, testbed.Config{Nodes: 2, Uplinks: 1})
			story{t, ctx, bed}.uplinksHaveMTU(mtu)
			startDaemons(t, ctx, bed)
			for _, l := range landscapes {
				if l.encap == "vlan" {
					t.Run(l.mode, func(t *testing.T) { playOn(t, bed, func(s story) { theUplinksMTUIsThatOfPods(s, l, mtu) }) })
				}
			}
		})
	}
}

// uplinksHaveMTU changes both ends of the links to the physical network.
func (s story) uplinksHaveMTU(mtu int) {
	s.Helper()
	for _, n := range s.bed.Nodes {
		_, err := n.Run(s.ctx, "ip", "link", "set", testbed.UplinkName(1), "mtu", strconv.Itoa(mtu))
		s.must(err)
		_, err = s.bed.Outside.Run(s.ctx, "ip", "link", "set", s.bed.Outside.Port(n, 1), "mtu", strconv.Itoa(mtu))
		s.must(err)
	}
}

func theUplinksMTUIsThatOfPods(s story, l landscape, mtu int) {
	const headers4, headers6, largest = 28, 48, 9000
	s.lan(l, dualStack)
	a, b := s.pod(0, "a", "blue", "lan", ""), s.pod(1, "b", "blue", "lan", "")
	s.reachEachOther(shortly, a, b)
	s.reachByIPv6([]*testbed.Pod{a, b})
	for _, pod := range []*testbed.Pod{a, b} {
		s.says(pod, fmt.Sprintf("mtu %d ", mtu), "ip", "link", "show", "eth0")
	}
	to := map[string]int{b.IP.String(): headers4, s.ipv6Of(b).String(): headers6}
	if l.mode == "bridge" {
		to[lanRouter4], to[lanRouter6] = headers4, headers6
	}
	for address, headers := range to {
		s.pings(a, "-M", "do", "-s", strconv.Itoa(mtu-headers), address)
	}
	if l.mode == "bridge" || mtu == largest {
		return // without a router, or ICMP errors to expect
	}
	for _, pod := range []*testbed.Pod{a, b} {
		_, err := pod.Run(s.ctx, "ip", "link", "set", "eth0", "mtu", strconv.Itoa(largest))
		s.must(err)
	}
	for _, address := range []string{b.IP.String(), s.ipv6Of(b).String()} {
		s.isTold(a, address, strconv.Itoa(mtu), "8900")
		s.pings(a, "-s", "8900", address) // now both ends fragment
	}
}
