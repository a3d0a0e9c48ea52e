package ovsd_test

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// routedNode is a node as a router: its address among the routers is on an interface of the host, and an external
// router has routes to pods by way of it.
//
//	world 198.51.100.1, 203.0.113.1 -- outside 198.18.5.1 == uplink == node 198.18.5.9 -- pods of 10.1.0.0/24
type routedNode struct {
	*node
	out    outside
	r      *bridged
	routed pipeline.Network
	pods   []*pod
	router pipeline.Router
}

func newRoutedNode(t *testing.T) routedNode {
	t.Helper()
	out, n := newOutside(t), newNode(t)
	out.connect(n)
	for _, link := range []string{"native", "second"} {
		out.Vsctl("add-port", "sw", link, "--", "set", "interface", link, "type=internal")
		out.Exec("ip", "link", "set", link, "up")
	}
	out.Exec("sh", "-ec", `
ip link set lo up
ip address add 198.18.5.1/24 dev native
ip address add 198.18.5.2/24 dev native
ip -6 address add 2001:db8::1/64 dev native nodad
ip address add 198.51.100.1/32 dev lo
ip address add 203.0.113.1/32 dev lo
ip address add 10.1.0.3/32 dev lo
ip route add 10.1.0.1/32 via 198.18.5.9
ip route add 10.1.0.2/32 via 198.18.5.9`)
	r := n.startVLAN()
	routed := vlanNetwork(lanVLAN)
	routed.Mode, routed.VRF = pipeline.Routed, pipeline.SharedVRF
	var pods []*pod
	for number := range byte(2) {
		e := onVLAN(lanVLAN, endpoint(number+1, 10+uint16(number)))
		e.Mode, e.VRF = pipeline.Routed, pipeline.SharedVRF
		port, err := r.AddPort(patience(t), pipeline.VLAN, e.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := n.podAt(e, port, number+1)
		p.exec("ip", "route", "add", "default", "via", routed.Gateway.String())
		pods = append(pods, p)
	}
	router := pipeline.Router{ID: "inb01", MAC: [6]byte{2, 2, 198, 18, 5, 9}, IPv4: netip.MustParseAddr("198.18.5.9")}
	port, err := r.AddPort(patience(t), pipeline.VLAN, router.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	n.Exec("sh", "-ec", `
ip link set "$1" name inb01
ip link set inb01 address "$2"
ethtool -K inb01 tx off >/dev/null
ip link set inb01 up
ip address add 198.18.5.9/24 dev inb01`, "sh", port.PodLink, mac(router.MAC))

	return routedNode{n, out, r, routed, pods, router}
}

// next returns the next hop of an external router with an address at a link.
func (rn routedNode) next(address, link string) pipeline.NextHop {
	h := pipeline.NextHop{Address: netip.MustParseAddr(address), From: rn.router.MAC}
	copy(h.MAC[:], parseMAC(rn.t, rn.of(link, "address")))
	return h
}

// of returns the kernel's information on a link of the external router.
func (rn routedNode) of(link, what string) string {
	rn.t.Helper()
	return strings.TrimSpace(rn.out.Exec("cat", "/sys/class/net/"+link+"/"+what))
}

// sharedGroup is the group of the routers of an equal-cost route.
const sharedGroup = pipeline.FirstRouteGroup + 1

func routeTo(prefix string, hop pipeline.NextHop) pipeline.Route {
	return pipeline.Route{Prefix: netip.MustParsePrefix(prefix), NextHop: hop.Address}
}

func hopsOf(hops ...pipeline.NextHop) pipeline.HopGroup {
	o := pipeline.HopGroup{Number: sharedGroup}
	for _, h := range hops {
		o.NextHops = append(o.NextHops, h.Address)
	}
	return o
}

func TestRoutedVLANsReachTheWorldByRouters(t *testing.T) {
	rn := newRoutedNode(t)
	out, n, r, routed, pods, router, of, route := rn.out, rn.node, rn.r, rn.routed, rn.pods, rn.router, rn.of, routeTo
	a, b := rn.next("198.18.5.1", "native"), rn.next("198.18.5.2", "second")
	elsewhere := onVLAN(lanVLAN, endpoint(3, 12))
	elsewhere.Mode, elsewhere.VRF, elsewhere.Local = pipeline.Routed, pipeline.SharedVRF, false
	state := func() drivers.Change {
		c := drivers.Change{Replace: true, Set: []pipeline.Object{routed, elsewhere, router, a, b, route("198.51.100.0/24", a), hopsOf(a, b), pipeline.Route{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Group: sharedGroup}, route("10.1.0.3/32", a)}}
		for _, p := range pods {
			c.Set = append(c.Set, p.endpoint)
		}
		return c
	}
	r.give(state())
	if s := r.Status(); !s.InSync || s.LastError != "" {
		t.Errorf("status %+v", s)
	}

	// The host communicates with routers.
	answered := func(try func(string, ...string) (string, error), args ...string) {
		t.Helper()
		eventually(t, "an answer to ping "+strings.Join(args, " "), func() bool {
			_, err := try("ping", append([]string{"-c1", "-W1", "-n", "-q"}, args...)...)
			return err == nil
		})
	}
	answered(n.Try, "198.18.5.1")
	answered(out.Try, "198.18.5.9")
	// Pods reach each other, their gateway and the world, and the world reaches them.
	one, two := pods[0], pods[1]
	one.reaches(two.endpoint.IPv4.String())
	one.reaches(routed.Gateway.String())
	for _, world := range []string{"198.51.100.1", "203.0.113.1"} {
		one.reaches(world)
		two.reaches(world)
		answered(out.Try, "-I", world, one.endpoint.IPv4.String())
	}
	if out := one.exec("ping", "-c1", "-W30", "-n", "198.51.100.1"); !strings.Contains(out, "ttl=63") {
		t.Errorf("a router has been passed:\n%s", out)
	}
	// Peers that still have a pod's MAC in their cache reach it after it has moved to another node.
	one.reaches("10.1.0.3")
	one.exec("ip", "neigh", "replace", "10.1.0.3", "lladdr", mac(elsewhere.MAC), "dev", "eth0")
	one.reaches("10.1.0.3")
	// Addresses without a route are not reached, and packets for addresses without an endpoint do not come in.
	if one.pings("198.19.0.1") || one.pings("10.1.0.77") {
		t.Error("reached without a route")
	}

	// Equal routes share what pods send: connections one by one, other packets by their addresses.
	sharedBy := func(packets int, send ...string) (first, second int) {
		t.Helper()
		counts := func() (n [2]int) {
			for i, link := range []string{"native", "second"} {
				var err error
				if n[i], err = strconv.Atoi(of(link, "statistics/rx_packets")); err != nil {
					t.Fatal(err)
				}
			}
			return n
		}
		before := counts()
		one.exec(send...)
		eventually(t, "all packets at the routers", func() bool {
			after := counts()
			first, second = after[0]-before[0], after[1]-before[1]
			return first+second >= packets
		})
		return first, second
	}
	const connections, few, pings = 64, 8, 20 // each connection is refused
	x, y := sharedBy(connections, "bash", "-c", fmt.Sprintf("for i in {1..%d}; do ! echo 2>/dev/null >/dev/tcp/203.0.113.1/9; done", connections))
	if x < few || y < few {
		t.Errorf("of %d connections equal routers got %d and %d", connections, x, y)
	}
	if x, y = sharedBy(pings, "ping", "-c", fmt.Sprint(2*pings), "-i0.01", "-n", "-q", "203.0.113.1"); max(x, y) < pings || min(x, y) >= few {
		t.Errorf("of %d pings equal routers got %d and %d", pings, x, y)
	}
	r.give(drivers.Change{Set: []pipeline.Object{hopsOf(b)}})
	eventually(t, "one has gone: the other gets all", func() bool { // the datapath's flows are updated after the tables
		x, _ = sharedBy(connections, "bash", "-c", fmt.Sprintf("for i in {1..%d}; do ! echo 2>/dev/null >/dev/tcp/203.0.113.1/9; done", connections))
		return x < few
	})
	r.give(state())

	// Rules match the world by address.
	rule := pipeline.Rule{ID: "no-world", Priority: 10, SrcGroup: 10, Dst: netip.MustParsePrefix("198.51.100.0/24"), Protocol: 1}
	r.give(drivers.Change{Set: []pipeline.Object{rule}})
	eventually(t, "the rule holds", func() bool { return !one.pings("198.51.100.1") })
	one.reaches("203.0.113.1")
	two.reaches("198.51.100.1")
	r.give(drivers.Change{Remove: []pipeline.Key{rule.Key()}})
	one.reaches("198.51.100.1")

	// The driver restarts: no packet is lost, and the flows stay the same.
	before := n.Ofctl("--no-stats", "--no-names", "dump-flows", vlanBridge)
	r.stop()
	r = n.startVLAN()
	r.give(state())
	if after := n.Ofctl("--no-stats", "--no-names", "dump-flows", vlanBridge); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	one.reaches("203.0.113.1")
}

func parseMAC(t testing.TB, text string) []byte {
	t.Helper()
	mac, err := net.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}
