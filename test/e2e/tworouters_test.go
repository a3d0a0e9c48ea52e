package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// A second external router is a machine of its own on the link of the nodes, beside the router that is the machine
// outside. Its sessions are over IPv6.
const (
	secondAddress  = "198.18.5.2"
	secondAddress6 = "2001:db8:18::2"
	nodeAddress6   = "2001:db8:18::11" // of the first node there
)

// secondBird returns that router for a node, with a password of the session.
func secondBird(password string) outsideRouter {
	line := ""
	if password != "" {
		line = fmt.Sprintf("password %q;", password)
	}
	return outsideRouter{
		name: "bird", password: password,
		config: `
router id 198.18.5.2;
protocol device {}
protocol static { ipv4; route 203.0.113.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:52::/64 blackhole; }
protocol bgp {
  local 2001:db8:18::2 as 65100;
  neighbor 2001:db8:18::11 as 65001;
  error wait time 1, 4;
  ` + line + `
  ipv4 { import all; export where source = RTS_STATIC; next hop address 198.18.5.2; };
  ipv6 { import all; export where source = RTS_STATIC; };
}
`,
		start: [][]string{{"bird", "-f", "-c", "{config}", "-s", "/run/second.ctl", "-P", "/run/second.pid"}},
		state: "birdc -s /run/second.ctl show protocols all; birdc -s /run/second.ctl show route",
	}
}

// secondFrr returns the same as FRR.
func secondFrr(password string) outsideRouter {
	line := ""
	if password != "" {
		line = "neighbor 2001:db8:18::11 password " + password
	}
	return outsideRouter{
		name: "frr", password: password,
		config: `
frr defaults traditional
hostname second
router bgp 65100
 bgp router-id 198.18.5.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 2001:db8:18::11 remote-as 65001
 ` + line + `
 address-family ipv4 unicast
  network 203.0.113.0/24
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:52::/64
  neighbor 2001:db8:18::11 activate
 exit-address-family
`,
		install: `mkdir -p /run/frr/second; chown -R frr:frr /run/frr`,
		start: [][]string{
			{"/usr/lib/frr/zebra", "-f", "/dev/null", "-i", "/run/frr/second/zebra.pid", "-z", "/run/frr/second/api", "--vty_socket", "/run/frr/second"},
			{"/usr/lib/frr/bgpd", "-f", "{config}", "-i", "/run/frr/second/bgpd.pid", "-z", "/run/frr/second/api", "--vty_socket", "/run/frr/second"},
		},
		state: "vtysh --vty_socket /run/frr/second -c 'show bgp summary' -c 'show bgp neighbors' -c 'show bgp ipv4' -c 'show bgp ipv6'",
	}
}

// makeSecond makes another machine on the link of the nodes until the story is over. Its port there is "second".
func (s story) makeSecond() outsider {
	s.Helper()
	_, err := s.bed.Outside.Run(s.ctx, "sh", "-ec", `
ip netns add second
ip netns exec second sysctl -q net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
ip link add second type veth peer name eth0 netns second
ip link set second master native up
ip netns exec second ethtool -K eth0 tx off >/dev/null
ip -n second link set lo up
ip -n second address add 198.18.5.2/24 dev eth0
ip -n second address add 2001:db8:18::2/64 dev eth0 nodad
ip -n second link set eth0 up`)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := s.bed.Outside.Run(ctx, "ip", "netns", "delete", "second")
		return err
	})
	return s.beyond("second")
}

// secondWay connects the second machine with the world, and has both routers count the new connections through
// them. The world itself answers by the first one.
const secondWay = `
ip address add 2001:db8:18::1/64 dev native nodad
ip netns exec world sysctl -q net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
ip link add world netns second type veth peer name eth1 netns world
ip -n world address add 198.51.100.2/30 dev eth1
ip -n world address add fe80::2/64 dev eth1 nodad
ip -n world link set eth1 up
ip -n second address add 198.51.100.1/30 dev world
ip -n second link set world up
ip -n second route add 203.0.113.2 via 198.51.100.2
ip -n second -6 route add 2001:db8:52::2 via fe80::2 dev world
for router in "" "ip netns exec second"; do
  $router nft -f - <<END
table inet ways {
  counter to4 {}
  counter to6 {}
  chain passing {
    type filter hook forward priority 0
    oifname "world" ip daddr 203.0.113.2 tcp flags & (syn | ack) == syn counter name to4
    oifname "world" ip6 daddr 2001:db8:52::2 tcp flags & (syn | ack) == syn counter name to6
  }
}
END
done`

// twoWays are the routers between a pod and the world.
type twoWays struct {
	story
	pod     *testbed.Pod
	routers [2]outsider
}

const (
	firstWay = iota
	otherWay
)

// silentRouter is the hold time of their sessions.
const silentRouter = 3 * time.Second

// twoRoutersShare has the first node speak with two routers that have the same routes, and expects that the
// connections of its pod use both, or the remaining one.
func twoRoutersShare(s story, first, second outsideRouter) {
	s.makeWorld()
	machine := s.makeSecond()
	_, err := s.bed.Outside.Run(s.ctx, "sh", "-ec", secondWay)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := s.bed.Outside.Run(ctx, "sh", "-c", "nft delete table inet ways; ip address delete 2001:db8:18::1/64 dev native")
		return err
	})
	s.run(first)
	router := s.runAt(machine, second)
	s.Cleanup(func() {
		if s.Failed() {
			out, err := machine.Run(context.Background(), "sh", "-c", second.state+"; ip route; ip -6 route; ip neigh; nft list ruleset")
			s.Log(out, err)
		}
	})
	node := s.bed.Nodes[0]
	more := fmt.Sprintf(", holdTime: %d, ipv6Routerip: '%s/64', neighbors: ['%s=%d']", int(silentRouter.Seconds()), nodeAddress6, secondAddress6, routerAS)
	s.netctlForNow("apply -f "+s.speaks(0, first, more), "bgp rm "+node.Name)
	s.tenant("blue")
	s.netctlForNow("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe routed", "network rm -t blue routed")
	w := twoWays{s, s.pod(0, "a", "blue", "routed", ""), [2]outsider{s.beyond(""), machine}}
	world := s.beyond("world")
	s.echoesOutside(world)
	server, err := world.Start("named", w.pod.Probe(), "serve", "-name", "world", "-tcp", strings.Join(worldPorts(), ","))
	s.must(err)
	s.afterwards(func(context.Context) error { return server.Kill() })

	const late = 5 * time.Second
	neighbour := fmt.Sprintf("no session with %s of AS %d", secondAddress6, routerAS)
	w.goBy(shortly, firstWay, otherWay)
	s.checks(node, "bgp", true, "2 neighbours")
	flows, by, streams := w.open()
	defer kill(streams)

	s.must(router.speaker.Kill()) // the machine still runs, and forwards packets
	s.Logf("%s killed: connections begin by the first router alone after %s", second.name, w.goBy(late, firstWay))
	s.checks(node, "bgp", false, neighbour)
	router.again()
	s.Logf("%s started: by both after %s", second.name, w.goBy(shortly, firstWay, otherWay))

	link := func(state string) {
		s.Helper()
		_, err := s.bed.Outside.Run(s.ctx, "ip", "link", "set", "second", state)
		s.must(err)
	}
	link("down")
	s.Logf("machine cut off: connections begin by the first router alone after %s", w.goBy(silentRouter+late, firstWay))
	s.checks(node, "bgp", false, neighbour)
	link("up")
	s.Logf("machine connected: by both after %s", w.goBy(shortly, firstWay, otherWay))
	s.checks(node, "bgp", true, "2 neighbours")

	for i, r := range s.ended(flows, streams) {
		most := connectionGap
		if by[i] == otherWay {
			most = 2 * (silentRouter + late) // TCP waits as long again, and retries
		}
		if gap := time.Duration(r.MaxGapMS * float64(time.Millisecond)); r.Lost != 0 || r.Sent == 0 || gap > most {
			s.Errorf("connection %s: %d of %d did not come back, nothing for %s from %s on", flows[i].name, r.Lost, r.Sent, gap, r.GapAt.UTC().Format(logTime))
		}
	}
}

// worldPorts returns the ports to which a pod connects at once.
func worldPorts() (ports []string) {
	for i := range 100 {
		ports = append(ports, strconv.Itoa(8001+i))
	}
	return ports
}

// fewest is the least number of so many connections by one of two equal routes: fewer happen by chance one time in
// a thousand million.
const fewest = 20

// goBy waits until exactly these routers share all connections of the pod, of both IP families, and returns how
// long it took.
func (w twoWays) goBy(limit time.Duration, routers ...int) time.Duration {
	w.Helper()
	return w.soon(limit, func() error {
		for _, world := range []string{world4, world6} {
			before := w.begun(world)
			if err := w.connects(world); err != nil {
				return err
			}
			var counts [2]int
			for i, now := range w.begun(world) {
				counts[i] = now - before[i]
			}
			for i, count := range counts {
				wanted := slices.Contains(routers, i)
				if wanted && count < fewest || !wanted && count > 0 {
					return fmt.Errorf("%s connects with %s by the two routers: %d, want connections by routers %d alone", w.pod.Name, world, counts, routers)
				}
			}
		}
		return nil
	}).Round(10 * time.Millisecond)
}

// connects has the pod connect to all ports of the world.
func (w twoWays) connects(world string) error {
	var targets []string
	for _, port := range worldPorts() {
		targets = append(targets, net.JoinHostPort(world, port))
	}
	out, err := w.pod.Run(w.ctx, w.pod.Probe(), "reach", "-tcp", strings.Join(targets, ","))
	if err != nil {
		return err
	}
	var answers map[string]string
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	for _, target := range targets {
		if answers[target] != "world" {
			return fmt.Errorf("%s connects with %s and hears %q", w.pod.Name, target, answers[target])
		}
	}
	return nil
}

// begun counts the connections to the world that were opened through each router.
func (w twoWays) begun(world string) (counts [2]int) {
	w.Helper()
	for i, router := range w.routers {
		out, err := router.Run(w.ctx, "nft", "list", "counter", "inet", "ways", map[string]string{world4: "to4", world6: "to6"}[world])
		w.must(err)
		_, rest, _ := strings.Cut(out, "packets ")
		number, _, _ := strings.Cut(rest, " ")
		counts[i], err = strconv.Atoi(number)
		w.must(err)
	}
	return counts
}

// open opens connections of both IP families until some use each router, and returns the router of each.
func (w twoWays) open() (flows []flow, by []int, streams []*testbed.Process) {
	w.Helper()
	for _, world := range []string{world4, world6} {
		for number, seen := 0, [2]bool{}; seen != [2]bool{true, true}; number++ {
			if number == fewest {
				w.Fatalf("%d connections with %s go by one router", number, world)
			}
			before := w.begun(world)
			f := flow{name: fmt.Sprint("way-", world, "-", number), from: w.pod, to: netip.MustParseAddr(world), tcp: true, every: 100 * time.Millisecond}
			streams = append(streams, w.begin(f)...)
			way := firstWay
			if w.begun(world)[otherWay] > before[otherWay] {
				way = otherWay
			}
			seen[way] = true
			flows, by = append(flows, f), append(by, way)
		}
	}
	return flows, by, streams
}
