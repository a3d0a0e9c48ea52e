package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

var hostChapters = []chapter{
	{"each host is in an infra network, and reaches the pods of its tenant from there", hostsJoinANetwork},
	{"pods reach what is outside by their host, whoever else has their address, and are not reached from there", podsReachTheOutside},
	{"pods are told which packets are too big for the way to others, to services and outside", podsAreToldWhatIsTooBig},
}

func hostsJoinANetwork(s story) {
	for _, tenant := range []string{"blue", "red"} {
		s.tenant(tenant)
		s.netctlForNow("network create -t "+tenant+" -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe front", "network rm -t "+tenant+" front")
	}
	near, far := s.pod(0, "near", "blue", "front", ""), s.pod(1, "far", "blue", "front", "")
	stranger := s.pod(0, "stranger", "red", "front", "") // has the address of near
	s.netctlForNow("network create -t blue --nw-type infra -s 10.9.0.0/24 -g 10.9.0.254 -s6 fd00:9::/64 -g6 fd00:9::1 contivh1", "network rm -t blue contivh1")
	host := s.bed.Nodes[0]
	for _, pod := range []*testbed.Pod{near, far} {
		for _, address := range []netip.Addr{pod.IP, s.ipv6Of(pod)} {
			s.soon(shortly, func() error { return hostReachesAt(s.ctx, host, pod, address) })
		}
	}
	for _, version := range []string{"-4", "-6"} {
		other := s.hostAddress(s.bed.Nodes[1], version)
		s.pings(host, other.String())
		s.pings(near, s.hostAddress(host, version).String())
		s.pings(near, other.String())
		if pinged(s.ctx, stranger.Run, other) == nil {
			s.Errorf("a pod of another tenant reaches the host at %s", other)
		}
	}

	// A network that comes later is reached, and one that goes is not.
	s.network("blue", "back", "10.1.2.0/24")
	late := s.pod(1, "late", "blue", "back", "")
	s.soon(shortly, func() error { return hostReaches(s.ctx, host, late) })

	// What somebody takes away comes back; what nobody has to take away stays.
	s.must(host.Netplugin().Kill())
	_, err := host.Run(s.ctx, "sh", "-ec", "ip route del 10.1.1.0/24 && ip addr del "+s.hostAddress(host, "-4").String()+"/24 dev contivh1")
	s.must(err)
	s.soon(shortly, func() error { return hostReaches(s.ctx, s.bed.Nodes[1], near) })
	s.must(host.StartNetplugin())
	s.must(host.WaitReady(s.ctx))
	s.soon(shortly, func() error { return hostReaches(s.ctx, host, far) })
	s.must(host.KillVSwitchd())
	s.must(host.StartOVS(s.ctx))
	s.soon(shortly, func() error { return hostReaches(s.ctx, host, far) })
}

// hostAddress is a host's address in the network contivh1, of a version of IP as ip(8) has it.
func (s story) hostAddress(n *testbed.Node, version string) netip.Addr {
	s.Helper()
	var address netip.Addr
	s.soon(shortly, func() error {
		out, err := n.Run(s.ctx, "ip", version, "-br", "address", "show", "dev", "contivh1", "scope", "global")
		if err != nil {
			return err
		}
		fields := strings.Fields(out)
		if len(fields) < 3 {
			return fmt.Errorf("%s has no address on contivh1: %q", n.Name, out)
		}
		prefix, err := netip.ParsePrefix(fields[2])
		address = prefix.Addr()
		return err
	})
	return address
}

// hostReaches tells what keeps a host from reaching a pod.
func hostReaches(ctx context.Context, from *testbed.Node, to *testbed.Pod) error {
	return hostReachesAt(ctx, from, to, to.IP)
}

// hostReachesAt is hostReaches at any address of the pod.
func hostReachesAt(ctx context.Context, from *testbed.Node, to *testbed.Pod, address netip.Addr) error {
	got, err := answersOf(address, time.Second, func(args ...string) (string, error) { return from.Run(ctx, append([]string{to.Probe()}, args...)...) })
	if err != nil {
		return err
	}
	if got["ping"] != "pong" || got["tcp"] != to.Name || got["udp"] != to.Name {
		return fmt.Errorf("%s asks for %s at %s and gets %v", from.Name, to.Name, address, got)
	}
	return nil
}

// pinged tells what keeps a machine from reaching an address.
func pinged(ctx context.Context, run func(context.Context, ...string) (string, error), address netip.Addr) error {
	_, err := run(ctx, "ping", "-c1", "-W1", "-n", "-q", address.String())
	return err
}

func podsReachTheOutside(s story) {
	host, outside := s.bed.Nodes[0], s.bed.Nodes[1]
	var pods []*testbed.Pod
	for _, tenant := range []string{"blue", "red"} {
		s.tenant(tenant)
		s.network(tenant, "front", "10.1.1.0/24")
		pods = append(pods, s.pod(0, tenant, tenant, "front", ""))
	}
	server := s.serverOutside(host, "9999,2379,9090", "4790")
	everybodyOut := func() error {
		for _, pod := range pods {
			if err := cmp.Or(pinged(s.ctx, pod.Run, netip.MustParseAddr(outside.MgmtIP)), pinged(s.ctx, pod.Run, netip.MustParseAddr(host.MgmtIP)),
				answering(s.ctx, pod, []string{server + ":9999", server + ":2379", server + ":9090"}, nil)); err != nil {
				return fmt.Errorf("%s: %w", pod.Name, err)
			}
		}
		return nil
	}
	s.soon(shortly, everybodyOut)
	s.controlIsClosed(pods[0], server)

	number, err := host.Run(s.ctx, "sh", "-c", "ovs-vsctl --timeout=10 --format=csv --no-headings --columns=ofport,external_ids list interface | grep front.blue- | cut -d, -f1")
	s.must(err)
	port, err := strconv.Atoi(strings.TrimSpace(number))
	s.must(err)
	address := netip.AddrFrom4([4]byte{172, 19, byte(port >> 8), byte(port)})
	s.pings(host, address.String())
	_, err = outside.Run(s.ctx, "ip", "route", "add", address.String(), "via", host.MgmtIP)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := outside.Run(ctx, "ip", "route", "del", address.String())
		return err
	})
	if pinged(s.ctx, outside.Run, address) == nil {
		s.Errorf("%s is reached from outside by its private address %s", pods[0].Name, address)
	}

	// What somebody takes away comes back.
	s.must(host.Netplugin().Kill())
	_, err = host.Run(s.ctx, "sh", "-ec", "nft flush table inet contiv; sysctl -qw net.ipv4.ip_forward=0; ip link set contivh0 down")
	s.must(err)
	s.must(host.StartNetplugin())
	s.must(host.WaitReady(s.ctx))
	s.soon(shortly, everybodyOut)
}
