package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testbed"
)

var hostChapters = []chapter{
	{"each host is in an infra network, and reaches the pods of its tenant from there", hostsJoinANetwork},
	{"hosts may be in two infra networks of a tenant: by the one not called contivh1 they reach each other and its pods, and no others", hostsJoinTwoNetworks},
	{"pods reach what is outside by their host, whoever else has their address, and are not reached from there", podsReachTheOutside},
	{"a pod leaves by IPv6 because netplugin has the host forward, which leaves what it forwards for others alone", theHostForwardsIPv6},
	{"netctl names what is wrong with a host, an address or the network between nodes, and what to do, until it is mended", whatIsWrongHereIsNamed},
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
	s.hostsServe()
	for _, version := range []string{"-4", "-6"} {
		s.reachesHosts(host, mastercfg.AccessNetwork, version)
		s.reachesHosts(near, mastercfg.AccessNetwork, version)
		other := s.hostAddress(s.bed.Nodes[1], mastercfg.AccessNetwork, version)
		for way, who := range s.asked(stranger, other) {
			if who != "" {
				s.Errorf("a pod of another tenant reaches the host at %s by %s", other, way)
			}
		}
		s.isClosedTo(near, version)
	}

	// A network that is created later is reached.
	s.network("blue", "back", "10.1.2.0/24")
	late := s.pod(1, "late", "blue", "back", "")
	s.soon(shortly, func() error { return hostReaches(s.ctx, host, late) })

	// A network whose subnet contains the nodes' own addresses cuts no node off from the others, and its removal
	// leaves nothing behind.
	s.netctl("network", "create", "-t", "blue", "-s", host.MgmtIP+"/29", "-g", host.MgmtIP, "astray")
	s.checks(host, "host", false, "no route to ", "the host is in it by interface ", "see docs/networking.md")
	s.netctl("network", "rm", "-t", "blue", "astray")
	s.soon(shortly, s.allIsWell)

	// Removed routes and addresses are restored; all else stays.
	s.must(host.Netplugin().Kill())
	_, err := host.Run(s.ctx, "sh", "-ec", "ip route del 10.1.1.0/24 && ip addr del "+s.hostAddress(host, mastercfg.AccessNetwork, "-4").String()+"/24 dev contivh1")
	s.must(err)
	s.soon(shortly, func() error { return hostReaches(s.ctx, s.bed.Nodes[1], near) })
	s.must(host.StartNetplugin())
	s.must(host.WaitReady(s.ctx))
	s.soon(shortly, func() error { return hostReaches(s.ctx, host, far) })
	s.must(host.KillVSwitchd())
	s.must(host.StartOVS(s.ctx))
	s.soon(shortly, func() error { return hostReaches(s.ctx, host, far) })
}

// hostsJoinTwoNetworks has hosts in contivh1 and in an infra network of another name, to which the first one's
// gateway could forward as well.
func hostsJoinTwoNetworks(s story) {
	const network = "contivVxGW"
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	s.netctlForNow("network create -t blue --nw-type infra -e vxlan -s 10.9.1.0/24 -g 10.9.1.254 -s6 fd00:91::/64 -g6 fd00:91::fe "+network, "network rm -t blue "+network)
	host := s.bed.Nodes[0]
	member, other := s.pod(1, "member", "blue", network, ""), s.pod(1, "other", "blue", "front", "")
	s.hostsServe()
	meet := func() {
		s.Helper()
		for _, version := range []string{"-4", "-6"} {
			s.reachesHosts(host, network, version)
			s.reachesHosts(member, network, version)
		}
		for _, address := range []netip.Addr{member.IP, s.ipv6Of(member)} {
			s.soon(shortly, func() error { return hostReachesAt(s.ctx, host, member, address) })
		}
	}
	meet()
	if hostReaches(s.ctx, host, other) == nil {
		s.Errorf("%s reaches a pod of another network", host.Name)
	}

	s.netctlForNow("network create -t blue --nw-type infra -s 10.9.0.0/24 -g 10.9.0.254 contivh1", "network rm -t blue contivh1")
	s.soon(shortly, func() error { return hostReaches(s.ctx, host, other) })
	s.reachesHosts(host, mastercfg.AccessNetwork, "-4")
	meet()
	out, err := host.Run(s.ctx, "ip", "route", "show", "10.9.1.0/24")
	s.must(err)
	if !strings.Contains(out, "dev "+network) || strings.Contains(out, "contivh1") {
		s.Errorf("%s is led elsewhere than into its own network:\n%s", host.Name, out)
	}
	s.soon(shortly, s.allIsWell)
}

// hostsServe has the hosts answer as pods do, at all of their addresses, until the story is over.
func (s story) hostsServe() {
	s.Helper()
	for _, n := range s.bed.Nodes {
		server, err := n.Start("host", n.Tool("probe"), "serve", "-name", n.Name, "-tcp", tcpPort, "-udp", echoPort)
		s.must(err)
		s.afterwards(func(context.Context) error { return server.Kill() })
	}
}

// reachesHosts expects that a pod or a host is soon answered by all hosts at their addresses in an infra network.
func (s story) reachesHosts(from interface {
	Run(context.Context, ...string) (string, error)
}, network, version string) {
	s.Helper()
	for _, to := range s.bed.Nodes {
		address := s.hostAddress(to, network, version)
		s.soon(shortly, func() error {
			got, err := answersOf(address, time.Second, func(args ...string) (string, error) {
				return from.Run(s.ctx, append([]string{to.Tool("probe")}, args...)...)
			})
			if err == nil && (got["ping"] != "pong" || got["tcp"] != to.Name || got["udp"] != to.Name) {
				err = fmt.Errorf("who asks for %s at %s gets %v", to.Name, address, got)
			}
			return err
		})
	}
}

// isClosedTo expects that a pod does not reach the control plane by the hosts' addresses in the infra network.
func (s story) isClosedTo(pod *testbed.Pod, version string) {
	s.Helper()
	for _, n := range s.bed.Nodes {
		url := "http://" + netip.AddrPortFrom(s.hostAddress(n, mastercfg.AccessNetwork, version), 9090).String() + "/readyz"
		_, err := n.Run(s.ctx, n.Tool("probe"), "http", url)
		s.must(err) // netplugin listens there
		if _, err := pod.Run(s.ctx, n.Tool("probe"), "http", "-wait", "1s", url); err == nil {
			s.Errorf("%s reaches %s", pod.Name, url)
		}
	}
}

// hostAddress returns a host's address in an infra network, of an IP family in ip(8)'s notation.
func (s story) hostAddress(n *testbed.Node, network, version string) netip.Addr {
	s.Helper()
	var address netip.Addr
	s.soon(shortly, func() error {
		out, err := n.Run(s.ctx, "ip", version, "-br", "address", "show", "dev", network, "scope", "global")
		if err != nil {
			return err
		}
		fields := strings.Fields(out)
		if len(fields) < 3 {
			return fmt.Errorf("%s has no address in %s: %q", n.Name, network, out)
		}
		prefix, err := netip.ParsePrefix(fields[2])
		address = prefix.Addr()
		return err
	})
	return address
}

// hostReaches returns why a host does not reach a pod.
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

// pinged returns why a machine does not reach an address.
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

	// What is removed is restored.
	s.must(host.Netplugin().Kill())
	_, err = host.Run(s.ctx, "sh", "-ec", "nft flush table inet contiv; sysctl -qw net.ipv4.ip_forward=0; ip link set contivh0 down")
	s.must(err)
	s.must(host.StartNetplugin())
	s.must(host.WaitReady(s.ctx))
	s.soon(shortly, everybodyOut)
}

// theHostForwardsIPv6 has a pod, and lab, a foreign machine, speak with a third one behind the same host.
func theHostForwardsIPv6(s story) {
	host := s.bed.Nodes[0]
	world := s.serverOutside(host, tcpPort, echoPort)
	s.worldHasIPv6(host)
	sources := s.labBehind(host)
	ways := func(from *testbed.Pod, address string) map[string]string {
		return s.asked(from, netip.MustParseAddr(address))
	}
	answered := map[string]string{"ping": "pong", "tcp": "ok", "udp": "ok"}
	reachesWorld := func(from *testbed.Pod, address string) {
		s.Helper()
		s.soon(shortly, func() error {
			if got := ways(from, address); !maps.Equal(got, answered) {
				return fmt.Errorf("%s asks %s and gets %v, want %v", from.Name, address, got, answered)
			}
			return nil
		})
	}
	forwardNothing := func() {
		s.Helper()
		_, err := host.Run(s.ctx, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=0")
		s.must(err)
	}

	forwardNothing() // as no network has IPv6 yet
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s6 fd00:6::/64 -g6 fd00:6::fe six", "network rm -t blue six")
	pod := s.pod(0, "six", "blue", "six", "")
	reachesWorld(pod, worldAddress6)
	s.must(host.Netplugin().Kill())
	forwardNothing()
	if got := ways(pod, worldAddress6); maps.Equal(got, answered) || got["ping"] != "" {
		s.Errorf("while the host does not forward, %s gets %v", pod.Name, got)
	}
	s.must(host.StartNetplugin())
	s.must(host.WaitReady(s.ctx))
	reachesWorld(pod, worldAddress6)

	lab, listener := &testbed.Pod{Name: "lab", Node: host}, ear{"world", &testbed.Pod{Name: "world", Node: host}, "eth0"}
	for to, source := range map[string]string{world: sources[0], worldAddress6: sources[1]} {
		s.listens(listener, source)
		reachesWorld(lab, to)
		if s.heard(listener) == 0 {
			s.Errorf("what lab sends to %s does not come as %s", to, source)
		}
	}
}

// labBehind makes a network namespace behind a host until the story is over, and returns the matches of its
// packets, for each IP family.
func (s story) labBehind(host *testbed.Node) [2]string {
	s.Helper()
	_, err := host.Run(s.ctx, "sh", "-ec", `
ip netns add lab
ip link add lab type veth peer name eth0 netns lab
ip address add 203.0.114.1/24 dev lab
ip address add 2001:db8:114::1/64 dev lab nodad
ip link set lab up
ip -n lab address add 203.0.114.2/24 dev eth0
ip -n lab address add 2001:db8:114::2/64 dev eth0 nodad
ip -n lab link set eth0 up
ip -n lab route add default via 203.0.114.1
ip -n lab route add default via 2001:db8:114::1`)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := host.Run(ctx, "ip", "netns", "delete", "lab")
		return err
	})
	return [2]string{"ip saddr 203.0.114.2", "ip6 saddr 2001:db8:114::2"}
}
