package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// The routers of Debian speak with nodes for which they have only address and AS, and in a closed cluster a
// password.
func TestLongRoutersOutsideReachPods(t *testing.T) {
	testkit.TakesLong(t)
	for _, c := range []struct {
		first, second outsideRouter
		more          []chapter
	}{
		{bird, secondFrr(bird.password), nil},
		{frr, secondBird(frr.password), []chapter{
			{"neighbours that are not what they should be are named, and others do not notice", failingSessionsAreNamed},
		}},
	} {
		t.Run(c.first.name, func(t *testing.T) {
			tellOn(t, testbed.Config{Nodes: 2, Uplinks: 1, First: true, Secure: c.first.password != ""}, append([]chapter{
				{"pods and the world reach each other, and go on doing so while agents, the router and switches restart", func(s story) { podsAndTheWorld(s, c.first) }},
				{"two routers share connections, and one has all of them while the other one is away", func(s story) { twoRoutersShare(s, c.first, c.second) }},
			}, c.more...))
		})
	}
}

// outsideRouter is a BGP speaker in the physical network.
type outsideRouter struct {
	name     string
	config   string
	password string // of its sessions; empty: none
	install  string // before the first start, in the machine
	start    [][]string
	state    string // prints its state
}

// The router's own place, the untagged network of the nodes, and a machine beyond.
const (
	routerAddress = "198.18.5.1"
	routerAS      = 65100
	world4        = "203.0.113.2"
	world6        = "2001:db8:52::2"
)

// nodeAddress returns a node's address among the routers.
func nodeAddress(node int) string { return fmt.Sprintf("198.18.5.%d", 11+node) }

const sessionPassword = "canary-of-the-sessions"

var bird = birdOf(9*time.Second, sessionPassword, 65001, 65002)

// birdOf is bird with a session with each node, of these AS. An empty password is none.
func birdOf(hold time.Duration, password string, nodes ...int) outsideRouter {
	var config strings.Builder
	config.WriteString(`
log stderr all;
debug protocols { states, events };
router id 198.18.5.1;
graceful restart wait 20;
protocol device {}
protocol kernel kernel4 { persist; graceful restart; ipv4 { export where source = RTS_BGP; }; }
protocol kernel kernel6 { persist; graceful restart; ipv6 { export where source = RTS_BGP; }; }
protocol static { ipv4; route 203.0.113.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:52::/64 blackhole; }
template bgp node {
  local 198.18.5.1 as 65100;
  error wait time 1, 4;
  graceful restart on;
  ipv4 { import all; export where source = RTS_STATIC; };
  ipv6 { import all; export where source = RTS_STATIC; next hop address fe80::c0de; };
`)
	fmt.Fprintf(&config, "  hold time %d;\n", int(hold.Seconds()))
	if password != "" {
		fmt.Fprintf(&config, "  password %q;\n", password)
	}
	config.WriteString("}\n")
	for i, as := range nodes {
		fmt.Fprintf(&config, "protocol bgp from node { neighbor %s as %d; }\n", nodeAddress(i), as)
	}
	return outsideRouter{
		name: "bird", password: password, config: config.String(),
		start: [][]string{{"bird", "-f", "-R", "-c", "{config}", "-s", "/run/bird.ctl"}},
		state: "birdc -s /run/bird.ctl show protocols all; birdc -s /run/bird.ctl show route",
	}
}

var frr = outsideRouter{
	name: "frr",
	config: `
frr defaults traditional
hostname outside
router bgp 65100
 bgp router-id 198.18.5.1
 no bgp ebgp-requires-policy
 bgp graceful-restart
 neighbor nodes peer-group
 neighbor nodes timers 3 9
 neighbor 198.18.5.11 remote-as 65001
 neighbor 198.18.5.11 peer-group nodes
 neighbor 198.18.5.12 remote-as 65002
 neighbor 198.18.5.12 peer-group nodes
 address-family ipv4 unicast
  network 203.0.113.0/24
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:52::/64
  neighbor nodes activate
 exit-address-family
`,
	install: `mkdir -p /run/frr; chown frr:frr /run/frr`,
	start: [][]string{
		{"/usr/lib/frr/zebra", "-K", "60", "-f", "/dev/null"},
		{"/usr/lib/frr/bgpd", "-f", "{config}"},
	},
	state: "vtysh -c 'show bgp summary' -c 'show bgp neighbors' -c 'show bgp ipv4' -c 'show bgp ipv6' -c 'show ip route'",
}

// runningRouter is a router whose last program is the speaker.
type runningRouter struct {
	speaker *testbed.Process
	again   func() // kills the speaker and starts it
}

// run starts the router's programs on the machine outside.
func (s story) run(r outsideRouter) *runningRouter {
	s.Helper()
	return s.runAt(s.beyond(""), r)
}

// runAt starts the router's programs.
func (s story) runAt(o outsider, r outsideRouter) *runningRouter {
	s.Helper()
	dir, err := os.MkdirTemp("", r.name)
	s.must(err)
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.must(os.Chmod(dir, 0o755)) // routers drop their privileges before they read
	file := filepath.Join(dir, "config")
	s.must(os.WriteFile(file, []byte(r.config), 0o644))
	if r.install != "" {
		_, err := o.Run(s.ctx, "sh", "-ec", r.install)
		s.must(err)
	}
	begin := func(args []string) *testbed.Process {
		line := strings.ReplaceAll(strings.Join(args, " "), "{config}", file)
		p, err := o.Start(filepath.Base(args[0])+o.name, strings.Fields(line)...)
		s.must(err)
		s.afterwards(func(context.Context) error {
			if p.Exited() {
				return nil
			}
			return p.Kill()
		})
		return p
	}
	router := &runningRouter{}
	for _, args := range r.start {
		router.speaker = begin(args)
	}
	router.again = func() {
		s.Helper()
		s.must(router.speaker.Kill())
		router.speaker = begin(r.start[len(r.start)-1])
	}
	return router
}

// makeWorld makes a machine beyond the external router until the story is over.
func (s story) makeWorld() {
	s.Helper()
	_, err := s.bed.Outside.Run(s.ctx, "sh", "-ec", `
ip address add 198.18.5.1/24 dev native
ip address add fe80::c0de/64 dev native nodad
sysctl -q net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip netns add world
ip link add world type veth peer name eth0 netns world
ip address add 203.0.113.1/24 dev world
ip address add 2001:db8:52::1/64 dev world nodad
ip link set world up
ip -n world link set lo up
ip -n world address add 203.0.113.2/24 dev eth0
ip -n world address add 2001:db8:52::2/64 dev eth0 nodad
ip -n world link set eth0 up
ip -n world route add default via 203.0.113.1
ip -n world route add default via 2001:db8:52::1`)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := s.bed.Outside.Run(ctx, "sh", "-ec", `
ip netns delete world
ip link delete world 2>/dev/null || :
ip address delete 198.18.5.1/24 dev native
ip address delete fe80::c0de/64 dev native
ip route flush proto bird
ip -6 route flush proto bird`)
		return err
	})
}

func podsAndTheWorld(s story, r outsideRouter) {
	s.makeWorld()
	inWorld := s.beyond("world").inside
	router := s.run(r)
	for i, n := range s.bed.Nodes {
		s.netctlForNow("apply -f "+s.speaks(i, r, ""), "bgp rm "+n.Name)
	}
	s.tenant("blue")
	s.netctlForNow("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe routed", "network rm -t blue routed")
	s.netctlForNow("network create -t blue -e vlan -p 108 -s 10.1.8.0/24 -g 10.1.8.254 -s6 fd00:8::/64 -g6 fd00:8::fe other", "network rm -t blue other")
	s.netctlForNow("policy create -t blue guard", "policy rm -t blue guard")
	s.netctlForNow("group create -t blue -p guard other quiet", "group rm -t blue quiet")
	a, b, c := s.pod(0, "a", "blue", "routed", ""), s.pod(1, "b", "blue", "routed", ""), s.pod(1, "c", "blue", "other", "quiet")
	s.Cleanup(func() {
		if s.Failed() {
			out, err := s.bed.Outside.Run(context.Background(), "sh", "-c", r.state+"; ip route; ip -6 route; ip neigh")
			s.Log(out, err)
		}
	})

	s.reachEachOther(20*time.Second, a, b, c)
	for _, pod := range []*testbed.Pod{a, b, c} {
		for _, world := range []string{world4, world6} {
			s.soon(20*time.Second, func() error { return pingsWorld(s.ctx, pod, world) })
		}
		for _, address := range []string{pod.IP.String(), s.ipv6Of(pod).String()} {
			s.soon(5*time.Second, func() error {
				_, err := s.bed.Outside.Run(s.ctx, inWorld("ping", "-c1", "-W1", "-n", "-q", address)...)
				return err
			})
		}
	}
	s.reachByIPv6([]*testbed.Pod{a, b})
	s.isService("routed", "10.1.7.200", b, a, b, c)
	s.endpointsAreAnnounced()
	s.servicesAreAnnounced(inWorld, a, b)
	s.smallLinkOfTheRouter(inWorld, b)

	// A pod with the host's egress does not reach the external routers, which would take it for the node.
	s.network("blue", "tunnels", "10.1.9.0/24")
	leaver, host := s.pod(0, "leaver", "blue", "tunnels", ""), s.bed.Nodes[0]
	s.soon(shortly, func() error { return pinged(s.ctx, leaver.Run, netip.MustParseAddr(host.MgmtIP)) })
	s.must(pinged(s.ctx, host.Run, netip.MustParseAddr(routerAddress)))
	if pinged(s.ctx, leaver.Run, netip.MustParseAddr(routerAddress)) == nil {
		s.Errorf("a pod in a tunnel reaches the router %s by the node's interface", routerAddress)
	}

	// The users' view.
	var told contivmodel.BgpInspect
	s.must(json.Unmarshal([]byte(s.netctl("bgp", "inspect", s.bed.Nodes[0].Name)), &told))
	learned := slices.Contains(told.Oper.Routes, "203.0.113.0/24") && slices.Contains(told.Oper.Routes, "2001:db8:52::/64")
	if told.Oper.NeighborStatus != "established" || told.Oper.NumRoutes < 2 || !learned {
		s.Errorf("netctl bgp inspect: %+v", told.Oper)
	}

	// Rules also apply to packets from the world.
	s.netctl(strings.Fields("policy rule-add -t blue -d in -l udp -P 7 -j deny guard no-echo")...)
	s.soon(3*time.Second, func() error { return isGuarded(s.ctx, a, c) })

	echo, err := s.bed.Outside.Start("world", inWorld(a.Probe(), "serve", "-udp", echoPort)...)
	s.must(err)
	s.afterwards(func(context.Context) error { return echo.Kill() })
	for _, world := range []string{world4, world6} {
		s.soon(shortly, func() error {
			_, err := a.Run(s.ctx, a.Probe(), "stream", "-to", net.JoinHostPort(world, echoPort), "-count", "1")
			return err
		})
	}
	flows := []flow{{name: "pod", from: a, to: b.IP}}
	for name, to := range map[string]string{"world4": world4, "world6": world6} {
		flows = append(flows, both(name, a, to)...)
	}
	quietly := func(what string, happens func()) {
		s.Helper()
		s.Log(what)
		for i, r := range s.whileFlowing(flows, happens) {
			if r.Lost != 0 || r.Sent == 0 {
				s.Errorf("%s: of %d datagrams to %s %d were lost", what, r.Sent, flows[i].to, r.Lost)
			}
		}
	}
	quietly("agents are killed and restarted", func() {
		s.restartAgents((*testbed.Process).Kill)
		s.established()
	})
	quietly("the router restarts", func() {
		router.again()
		s.established()
	})
	quietly("agents are killed, and start while masters and store are away", func() {
		s.killMasters()
		for _, n := range s.bed.Nodes {
			s.must(n.Netplugin().Kill())
			s.must(n.StartNetplugin())
		}
		s.sessions()
		s.startMasters()
		for _, n := range s.bed.Nodes {
			s.must(n.WaitReady(s.ctx))
		}
		s.established()
	})

	node := s.bed.Nodes[0]
	s.must(node.KillVSwitchd())
	s.must(node.StartOVS(s.ctx))
	for _, world := range []string{world4, world6} {
		took := s.soon(shortly, func() error { return pingsWorld(s.ctx, a, world) })
		s.Logf("%s after the switch answered, a pod reaches %s", took, world)
	}
	s.established()
	damaged, done := s.within(storyLimit)
	defer done()
	damaged.routerIsDamaged(node, a)
	last, done := s.within(storyLimit)
	defer done()
	last.silenceIsFound(r, router, a)
	last.whatIsBrokenIsNamed(a)
}

// endpointsAreAnnounced expects the router to have routes to a pod by the pod's node while the pod exists.
func (s story) endpointsAreAnnounced() {
	s.Helper()
	pod := s.pod(1, "announced", "blue", "routed", "")
	addresses := []netip.Addr{pod.IP, s.ipv6Of(pod)}
	announced := func(wanted bool) {
		s.Helper()
		for _, address := range addresses {
			s.soon(shortly, func() error {
				version := map[bool]string{true: "-4", false: "-6"}[address.Is4()] // ip does not see it by the address
				out, err := s.bed.Outside.Run(s.ctx, "ip", version, "route", "show", address.String())
				if there := strings.TrimSpace(out) != ""; err == nil && there != wanted {
					err = fmt.Errorf("the router's route to %s: %q, want one: %v", address, out, wanted)
				}
				return err
			})
		}
	}
	announced(true)
	_, err := pod.CNI(s.ctx, "del")
	s.must(err)
	announced(false)
}

// speaks writes a document that has a node speak with the router.
func (s story) speaks(node int, r outsideRouter, more string) (document string) {
	s.Helper()
	n := s.bed.Nodes[node]
	document = filepath.Join(s.TempDir(), n.Name+".yaml")
	s.must(os.WriteFile(document, fmt.Appendf(nil, "kind: Bgp\nmetadata: {name: %s}\nspec: {routerip: %s/24, as: '%d', neighbor-as: '%d', neighbor: %s, password: '%s'%s}\n",
		n.Name, nodeAddress(node), 65001+node, routerAS, routerAddress, r.password, more), 0o644))
	return document
}

// silenceIsFound stops the router's speaker with a hold time of 3 s on one node, whose switch forgets the router's
// routes within that.
func (s story) silenceIsFound(r outsideRouter, router *runningRouter, pod *testbed.Pod) {
	s.Helper()
	const hold, late = 3 * time.Second, 5 * time.Second
	node := s.bed.Nodes[0]
	routes := func(wanted bool) error {
		for _, match := range []string{"ip,nw_dst=203.0.113.0/24", "ipv6,ipv6_dst=2001:db8:52::/64"} {
			out, err := node.Run(s.ctx, "ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", "contivVlanBridge", match)
			if err != nil {
				return err
			}
			if there := strings.Contains(out, "actions="); there != wanted {
				return fmt.Errorf("the switch has a route to %s: %v, want %v", match, there, wanted)
			}
		}
		return nil
	}
	s.netctl("bgp", "rm", node.Name)
	s.soon(shortly, func() error { return routes(false) }) // so that later ones are of the new session
	s.netctl("apply", "-f", s.speaks(0, r, fmt.Sprintf(", holdTime: %d", int(hold.Seconds()))))
	s.established()
	s.soon(shortly, func() error { return routes(true) })
	s.must(router.speaker.Suspend())
	took := s.soon(hold+late, func() error { return routes(false) })
	s.must(router.speaker.Resume())
	s.Logf("the routes of a silent router had gone after %s", took.Round(10*time.Millisecond))
	s.soon(shortly, func() error { return routes(true) })
	for _, world := range []string{world4, world6} {
		s.soon(shortly, func() error { return pingsWorld(s.ctx, pod, world) })
	}
}

// smallLinkOfTheRouter has the world read more than fits in its link from a pod's service: the router's ICMP
// errors concern the service's address.
func (s story) smallLinkOfTheRouter(inWorld func(...string) []string, provider *testbed.Pod) {
	s.Helper()
	s.netctlForNow("service create -t blue -s routed -l app=bulk -ip 10.1.7.202 -ip6 fd00:7::ca -p 5201:5201:TCP bulk", "service rm -t blue bulk")
	s.container("start", provider, map[string]string{"app": "bulk"})
	defer s.container("die", provider, nil)
	server, err := provider.Start("iperf3", "iperf3", "-s")
	s.must(err)
	defer func() { s.must(server.Kill()) }()
	link := func(mtu string) {
		s.Helper()
		_, err := s.bed.Outside.Run(s.ctx, "ip", "link", "set", "world", "mtu", mtu)
		s.must(err)
	}
	link(small)
	defer link("1500")
	for _, vip := range []string{"10.1.7.202", "fd00:7::ca"} {
		_, err := provider.Run(s.ctx, "sh", "-ec", "ip route flush cache; ip -6 route flush cache")
		s.must(err)
		s.soon(shortly, func() error {
			out, err := s.bed.Outside.Run(s.ctx, inWorld("timeout", "10", "iperf3", "-c", vip, "-R", "-n", "4M")...)
			if err != nil {
				err = fmt.Errorf("the world reads of %s at %s: %w %s", provider.Name, vip, err, out)
			}
			return err
		})
		s.says(provider, "mtu "+small, "sh", "-c", "ip route get "+world4+"; ip route get "+world6)
	}
	_, err = provider.Run(s.ctx, "sh", "-ec", "ip route flush cache; ip -6 route flush cache")
	s.must(err)
}

// sessions waits until the router has one with each node.
func (s story) sessions() {
	s.Helper()
	for i, n := range s.bed.Nodes {
		s.soon(20*time.Second, func() error {
			out, err := s.bed.Outside.Run(s.ctx, "ss", "-tnH", "state", "established", "( sport = :179 or dport = :179 )")
			if err == nil && !strings.Contains(out, nodeAddress(i)+":") {
				err = fmt.Errorf("%s has no session with the router: %q", n.Name, out)
			}
			return err
		})
	}
}

// established waits until the sessions of all nodes are up: the router's present ones, not those that a node has
// not yet missed.
func (s story) established() {
	s.Helper()
	s.sessions()
	for _, n := range s.bed.Nodes {
		s.soon(20*time.Second, func() error {
			var told contivmodel.BgpInspect
			out, err := s.bed.Netctl(s.ctx, "bgp", "inspect", n.Name)
			if err == nil {
				err = json.Unmarshal([]byte(out), &told)
			}
			if err == nil && told.Oper.NeighborStatus != "established" {
				err = fmt.Errorf("neighbour of %s: %+v", n.Name, told.Oper)
			}
			return err
		})
	}
}

func pingsWorld(ctx context.Context, from *testbed.Pod, address string) error {
	out, err := from.Run(ctx, "ping", "-c1", "-W1", "-n", "-q", address)
	if err != nil {
		return fmt.Errorf("%s pings %s: %w %s", from.Name, address, err, out)
	}
	return nil
}
