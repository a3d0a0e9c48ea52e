package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/test/testbed"
)

// Ports of the services with counted flows: of every service, and on nodes.
const (
	lasting     = " -p " + tcpPort + ":80:TCP -p " + echoPort + ":7:UDP -p " + echoPort + ":7:TCP"
	onNodes     = " -n " + tcpNodePort + ":" + tcpPort + ":TCP -n " + udpNodePort + ":" + echoPort + ":UDP -n " + connectionPort + ":" + echoPort + ":TCP"
	shopVIP6    = "fd00:2::c8"
	lanVIP      = "10.1.7.200"
	lanVIP6     = "fd00:7::c8"
	tunnelVIP   = "10.1.9.200"
	tunnelVIP6  = "fd00:9::c8"
	untagged    = "198.18.6." // of the machines' own addresses on uplinks
	untagged6   = "2001:db8:6::"
	routerOwn   = "254"
	routerOwn6  = "fe"
	firstOfNode = "1"

	connectionPort = "30070"
)

// both returns a lasting flow and fresh ones.
func both(name string, from speaker, to string) []flow {
	f := flow{name: name, from: from, to: netip.MustParseAddr(to)}
	fresh := f
	fresh.name, fresh.fresh = "new, "+name, true
	return []flow{f, fresh}
}

// calmly slows flows down, so that one machine has room for many of them. For a switch in user space, the first
// packet of a flow costs as much as many others.
func calmly(flows ...[]flow) []flow {
	all := slices.Concat(flows...)
	for i, f := range all {
		if all[i].every = 20 * time.Millisecond; f.fresh {
			all[i].every = 100 * time.Millisecond
		}
	}
	return all
}

// connections returns a connection for each flow, from its source to its destination, except for fresh ones.
func connections(flows []flow) (all []flow) {
	for _, f := range flows {
		if f.fresh {
			continue
		}
		f.name, f.tcp, f.every = "tcp, "+f.name, true, 100*time.Millisecond
		if f.port != "" {
			f.port = connectionPort
		}
		all = append(all, f)
	}
	return all
}

// echoes answers connections in pods for as long as they live.
func (s story) echoes(pods ...*testbed.Pod) {
	s.Helper()
	for _, p := range pods {
		s.must(p.Serve(s.ctx, "-echo", echoPort))
	}
}

// echoesOutside answers datagrams and connections there.
func (s story) echoesOutside(o outsider) {
	s.Helper()
	server, err := o.Start("echo", s.bed.Nodes[0].Prompt(o.Probe(), "serve", "-udp", echoPort, "-echo", echoPort)...)
	s.must(err)
	s.afterwards(func(context.Context) error { return server.Kill() })
}

// othersIn makes a pod in a group of its own, whose policy changes.
func (s story) othersIn(network string) {
	s.Helper()
	s.netctlForNow("policy create -t blue others", "policy rm -t blue others")
	s.netctlForNow("group create -t blue -p others "+network+" others", "group rm -t blue others")
	s.pod(0, "other", "blue", network, "others")
}

func (s story) routedCast() cast {
	s.Helper()
	world, outside := s.beyond("world"), s.beyond("")
	s.makeWorld()
	router := s.run(birdOf(bgp.DefaultHoldTime, "", slices.Repeat([]int{65001}, len(s.bed.Nodes))...))
	for i, n := range s.bed.Nodes {
		s.netctlForNow(fmt.Sprintf("bgp create %s --router-ip %s/24 --as 65001 --neighbor-as %d --neighbor %s", n.Name, nodeAddress(i), routerAS, routerAddress), "bgp rm "+n.Name)
	}
	s.hostsAreOutside()
	s.tenant("blue")
	s.blueNetwork("inner", "-s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe")
	s.blueNetwork("shop", "-s 10.1.2.0/24 -g 10.1.2.254 -s6 fd00:2::/64 -g6 fd00:2::fe")
	s.blueNetwork("lan", "-e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe")
	s.service("web", "shop", serviceVIP, shopVIP6, " -x "+outsideVIP+" -x "+outsideVIP6+onNodes)
	s.service("till", "lan", lanVIP, lanVIP6, "")
	s.othersIn("inner")
	inner1, inner2 := s.pod(0, "inner1", "blue", "inner", ""), s.pod(1, "inner2", "blue", "inner", "")
	lan1, lan2 := s.pod(0, "lan1", "blue", "lan", ""), s.pod(1, "lan2", "blue", "lan", "")
	provider := s.providers("shop", serviceVIP, inner1, inner2)
	till := s.provider(1, "till", "lan", "till")
	s.echoes(inner2, lan2)
	s.echoesOutside(world)
	s.reachEachOther(shortly, inner1, inner2)
	s.reachEachOther(shortly, lan1, lan2)
	s.servedAt(lanVIP, []*testbed.Pod{lan1}, till.Name)
	s.established()
	for _, to := range []string{world4, world6} {
		s.pings(lan1, to)
	}
	for _, vip := range []string{lanVIP, lanVIP6} {
		s.pings(world, vip)
	}

	c := cast{own: []disturbance{provider, {"the router outside is killed and starts", func(story) { router.again() }}}, settled: story.established}
	c.flows = slices.Concat(both("vxlan", inner1, inner2.IP.String()), both("vlan", lan1, lan2.IP.String()), both("service", inner1, serviceVIP), calmly(
		both("vxlan, IPv6", inner1, s.ipv6Of(inner2).String()), both("vlan, IPv6", lan1, s.ipv6Of(lan2).String()), both("service, IPv6", inner1, shopVIP6),
		both("service of a vlan", lan1, lanVIP), both("service of a vlan, IPv6", lan1, lanVIP6),
		both("learned route", lan1, world4), both("learned route, IPv6", lan1, world6),
		both("announced service", world, lanVIP), both("announced service, IPv6", world, lanVIP6),
		both("external address", outside, outsideVIP), both("external address, IPv6", outside, outsideVIP6),
		onNodePort(both("node port", outside, untagged+firstOfNode)), onNodePort(both("node port, IPv6", outside, untagged6+firstOfNode))))
	c.connections = connections(c.flows)
	return c
}

// onNodePort returns the flows to the service's port of a node.
func onNodePort(flows []flow) []flow {
	for i := range flows {
		flows[i].port = udpNodePort
	}
	return flows
}

func (s story) bridgedCast() cast {
	s.Helper()
	s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	s.tenant("blue")
	s.blueNetwork("inner", "-s 10.1.9.0/24 -s6 fd00:9::/64")
	s.onVLAN("lan", lanVLAN, lanRouter4, lanRouter6)
	s.service("web", "inner", tunnelVIP, tunnelVIP6, "")
	s.service("till", "lan", lanVIP, lanVIP6, "")
	s.othersIn("inner")
	inner1, inner2 := s.pod(0, "inner1", "blue", "inner", ""), s.pod(1, "inner2", "blue", "inner", "")
	lan1, lan2 := s.pod(0, "lan1", "blue", "lan", ""), s.pod(1, "lan2", "blue", "lan", "")
	provider := s.providers("inner", tunnelVIP, inner1, inner2)
	till := s.provider(1, "till", "lan", "till")
	s.echoes(inner2, lan2)
	s.echoesOutside(s.beyond(""))
	s.reachEachOther(shortly, inner1, inner2)
	s.reachEachOther(shortly, lan1, lan2)
	s.servedAt(lanVIP, []*testbed.Pod{lan1}, till.Name)
	for _, router := range []string{lanRouter4, lanRouter6} {
		s.pings(lan1, router)
	}

	c := cast{own: []disturbance{provider}}
	c.flows = slices.Concat(both("vxlan", inner1, inner2.IP.String()), both("vlan", lan1, lan2.IP.String()), both("router", lan2, lanRouter4), both("service", inner1, tunnelVIP), calmly(
		both("vxlan, IPv6", inner1, s.ipv6Of(inner2).String()), both("vlan, IPv6", lan1, s.ipv6Of(lan2).String()), both("router, IPv6", lan2, lanRouter6),
		both("service, IPv6", inner1, tunnelVIP6), both("service of a vlan", lan1, lanVIP), both("service of a vlan, IPv6", lan1, lanVIP6)))
	c.connections = connections(c.flows)
	return c
}

func (s story) blueNetwork(name, options string) {
	s.Helper()
	s.netctlForNow("network create -t blue "+options+" "+name, "network rm -t blue "+name)
}

func (s story) service(name, network, vip, vip6, options string) {
	s.Helper()
	s.netctlForNow("service create -t blue -s "+network+" -l app="+name+" -ip "+vip+" -ip6 "+vip6+lasting+options+" "+name, "service rm -t blue "+name)
}

// provider serves a service of blue from its ADD on.
func (s story) provider(node int, name, network, app string) *testbed.Pod {
	s.Helper()
	p := s.sandbox(node, name, "blue", network, "")
	p.Labels = map[string]string{"app": app}
	s.must(p.Attach(s.ctx))
	s.serve(p)
	s.echoes(p)
	return p
}

// providers serve the service web, one of them always and one while something happens.
func (s story) providers(network, vip string, client, other *testbed.Pod) disturbance {
	s.Helper()
	s.provider(1, "one", network, "web")
	two := s.pod(0, "two", "blue", network, "")
	s.echoes(two)
	s.servedAt(vip, []*testbed.Pod{client}, "one")
	return disturbance{"a provider comes, and drains", func(s story) {
		s.container("start", two, map[string]string{"app": "web"})
		s.servedAt(vip, []*testbed.Pod{other}, "one", "two")
		s.container("start", two, map[string]string{"app": "old"})
		s.servedAt(vip, []*testbed.Pod{other}, "one")
	}}
}

// hostsAreOutside gives hosts addresses on their uplinks, and the machine outside one beside them; it routes
// external addresses of services to the first node.
func (s story) hostsAreOutside() {
	s.Helper()
	for i, n := range s.bed.Nodes {
		four, six := fmt.Sprint(untagged, i+1, "/24"), fmt.Sprint(untagged6, i+1, "/64")
		_, err := n.Run(s.ctx, "sh", "-ec", `ip address add "$1" dev "$3"; ip address add "$2" dev "$3" nodad`, "sh", four, six, testbed.UplinkName(1))
		s.must(err)
		s.afterwards(func(ctx context.Context) error {
			_, err := n.Run(ctx, "sh", "-ec", `ip address del "$1" dev contivUplink; ip address del "$2" dev contivUplink`, "sh", four, six)
			return err
		})
	}
	outside := s.beyond("")
	_, err := outside.Run(s.ctx, "sh", "-ec", `
ip address add `+untagged+routerOwn+`/24 dev native
ip address add `+untagged6+routerOwn6+`/64 dev native nodad
ip route add `+outsideVIP+` via `+untagged+firstOfNode+`
ip -6 route add `+outsideVIP6+` via `+untagged6+firstOfNode)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := outside.Run(ctx, "sh", "-ec", `
ip route del `+outsideVIP+`
ip -6 route del `+outsideVIP6+`
ip address del `+untagged+routerOwn+`/24 dev native
ip address del `+untagged6+routerOwn6+`/64 dev native`)
		return err
	})
	for i := range s.bed.Nodes {
		s.pings(outside, fmt.Sprint(untagged, i+1))
		s.pings(outside, fmt.Sprint(untagged6, i+1))
	}
}
