package ovsd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/utils/fault"
)

const vlanBridge = "contivVlanBridge"

// The physical network of these tests is a learning switch, to which the uplinks of the nodes are connected, and a
// router in each of two VLANs. It is a namespace of its own, unaware of the controller.
//
//	VLAN 7   10.1.0.0/24, router 10.1.0.254   pods 1 and 2 on node 1, 3 on node 2
//	VLAN 8   10.1.1.0/24, router 10.1.1.254   pod 9 on node 1
const (
	lanVLAN = 7
	dmzVLAN = 8
)

// outside is the physical network.
type outside struct{ *ovstest.Switch }

func newOutside(t testing.TB) outside {
	o := outside{ovstest.Start(t)}
	o.AddBridge("sw", "fail_mode=standalone")
	o.leg(lanVLAN, "10.1.0.254/24")
	o.leg(dmzVLAN, "10.1.1.254/24")
	o.Exec("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_accept=1")
	return o
}

// leg gives the router an address in a VLAN.
func (o outside) leg(vlan int, address string) {
	name := fmt.Sprint("leg", vlan)
	o.Vsctl("add-port", "sw", name, fmt.Sprint("tag=", vlan), "--", "set", "interface", name, "type=internal")
	o.Exec("ip", "link", "set", name, "up")
	o.Exec("ip", "address", "add", address, "dev", name)
}

// connect gives a node an uplink, up0, to the outside.
func (o outside) connect(n *node) {
	n.t.Helper()
	port := "to-" + n.Netns[max(0, len(n.Netns)-12):]
	o.Exec("ip", "link", "add", port, "type", "veth", "peer", "name", "up0", "netns", n.Netns)
	o.Exec("ip", "link", "set", port, "up")
	o.Vsctl("--if-exists", "del-port", "sw", port)
	o.Vsctl("add-port", "sw", port)
	n.config.Uplinks = []string{"up0"}
}

// bridged is a driver with the bridge of its uplinks, which runs until stop.
type bridged struct {
	*running
	uplink *uplink.Bridge
	stop   func()
}

func (n *node) startVLAN() *bridged {
	n.t.Helper()
	b, err := uplink.New(uplink.Config{RunDir: n.RunDir, Serves: vlanBridge, Links: n.config.Uplinks, NetNS: n.config.NetNS, StateDir: n.t.TempDir()})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	r := n.start()
	stop := sync.OnceFunc(func() {
		r.stop()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			n.t.Errorf("Run of the uplinks returned %v", err)
		}
	})
	n.t.Cleanup(stop)
	return &bridged{running: r, uplink: b, stop: stop}
}

func onVLAN(vlan uint16, e pipeline.Endpoint) pipeline.Endpoint {
	e.Mode, e.Encap, e.VNI, e.Tag, e.Network = pipeline.BridgedProxy, pipeline.VLAN, 0, vlan, vlanNetwork(vlan).ID
	if vlan == dmzVLAN {
		a := e.IPv4.As4()
		a[2], e.MAC[4] = 1, 1
		e.IPv4 = netip.AddrFrom4(a)
	}
	return e
}

func vlanNetwork(vlan uint16) pipeline.Network {
	n := network
	n.ID, n.Mode, n.Encap, n.VNI, n.Tag = fmt.Sprintf("vlan%d.blue", vlan), pipeline.BridgedProxy, pipeline.VLAN, 0, vlan
	return n
}

// vlanPod is newPod on the bridge with the uplink.
func (n *node) vlanPod(r *bridged, vlan uint16, number byte, group uint16) *pod {
	n.t.Helper()
	e := onVLAN(vlan, endpoint(number, group))
	port, err := r.AddPort(patience(n.t), pipeline.VLAN, e.ID, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	p := n.podAt(e, port, number)
	router := e.IPv4.As4()
	router[3] = 254
	p.exec("ip", "route", "add", "default", "via", netip.AddrFrom4(router).String())
	return p
}

// onNode returns the change with the given pods for a node, some of them its own.
func onNode(own []*pod, others ...*pod) drivers.Change {
	c := drivers.Change{Replace: true}
	for _, vlan := range []uint16{lanVLAN, dmzVLAN} {
		in := vlanNetwork(vlan)
		set := pipeline.FloodSet{Network: in.ID, Encap: in.Encap, Tag: in.Tag}
		for _, p := range own {
			if p.endpoint.Network == in.ID {
				set.Members = append(set.Members, p.endpoint.MAC)
			}
		}
		c.Set = append(c.Set, in, set)
	}
	for _, p := range own {
		c.Set = append(c.Set, p.endpoint)
	}
	for _, p := range others {
		e := p.endpoint
		e.Local = false
		c.Set = append(c.Set, e)
	}
	return c
}

func (p *pod) pings(address string) bool {
	return p.command("ping", "-c", "1", "-W", "1", "-n", "-q", address).Run() == nil
}

func (p *pod) reaches(address string) {
	p.t.Helper()
	eventually(p.t, p.endpoint.ID+" reaches "+address, func() bool { return p.pings(address) })
}

func TestVLANNetworksReachEachOtherTheRouterAndNobodyElse(t *testing.T) {
	out, n1, n2 := newOutside(t), newNode(t), newNode(t)
	out.connect(n1)
	out.connect(n2)
	r1, r2 := n1.startVLAN(), n2.startVLAN()
	a, b := n1.vlanPod(r1, lanVLAN, 1, 11), n1.vlanPod(r1, lanVLAN, 2, 12)
	c, d := n2.vlanPod(r2, lanVLAN, 3, 13), n1.vlanPod(r1, dmzVLAN, 9, 19)
	r1.give(onNode([]*pod{a, b, d}, c))
	r2.give(onNode([]*pod{c}, a, b, d))
	if s := r1.Status(); s.Bridge != vlanBridge || !s.InSync || s.LastError != "" {
		t.Errorf("status %+v", s)
	}
	// Gratuitous ARP of a pod is received outside.
	b.exec("sysctl", "-qw", "net.ipv4.conf.eth0.arp_notify=1")
	eventually(t, "the router has heard of a pod", func() bool {
		b.exec("ip", "link", "set", "eth0", "down")
		b.exec("ip", "link", "set", "eth0", "up")
		return strings.Contains(out.Exec("ip", "neigh", "show", b.endpoint.IPv4.String()), mac(b.endpoint.MAC))
	})
	b.exec("ip", "route", "add", "default", "via", "10.1.0.254")
	a.reaches(b.endpoint.IPv4.String())
	a.reaches(c.endpoint.IPv4.String())
	c.reaches(b.endpoint.IPv4.String())
	for _, p := range []*pod{a, b, c} {
		p.reaches("10.1.0.254")
	}
	a.reaches(d.endpoint.IPv4.String()) // through the router
	d.reaches(c.endpoint.IPv4.String())
	out.Exec("ping", "-c", "1", "-W", "5", a.endpoint.IPv4.String())

	// Frames on the wire carry the network's VLAN, and only that.
	learned := out.Appctl("fdb/show", "sw")
	for p, vlan := range map[*pod]int{a: lanVLAN, b: lanVLAN, c: lanVLAN, d: dmzVLAN} {
		for _, other := range []int{0, lanVLAN, dmzVLAN} {
			seen := strings.Contains(strings.Join(strings.Fields(learned), " "), fmt.Sprintf(" %d %s ", other, mac(p.endpoint.MAC)))
			if seen != (other == vlan) {
				t.Errorf("VLAN %d on the wire from %s: %v\n%s", other, p.endpoint.ID, seen, learned)
			}
		}
	}
	// A host of another VLAN is not reached, whatever its address is.
	out.leg(9, "10.1.0.77/32")
	if a.pings("10.1.0.77") {
		t.Error("a pod reaches a host of another VLAN")
	}

	// Flooded packets leave only if they may be sent outside.
	out.Exec("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_broadcasts=0")
	broadcasts := func() bool { // whether one of three is answered
		return a.command("ping", "-b", "-c", "3", "-i", "0.2", "-W", "1", "-n", "-q", "10.1.0.255").Run() == nil
	}
	eventually(t, "the router answers a broadcast", broadcasts)
	r1.give(drivers.Change{Set: []pipeline.Object{pipeline.Rule{ID: "keep-in", Priority: 1, SrcGroup: 11, Protocol: 1}}})
	eventually(t, "no broadcast leaves that is denied", func() bool { return !broadcasts() })
	r1.give(drivers.Change{Remove: []pipeline.Key{pipeline.Rule{ID: "keep-in"}.Key()}})
	eventually(t, "the router answers a broadcast again", broadcasts)

	// Policy: inside a network, across nodes and through the router.
	deny := func(from, to uint16) pipeline.Rule {
		return pipeline.Rule{ID: fmt.Sprint("deny-", from, "-", to), Priority: 10, SrcGroup: from, DstGroup: to, Protocol: 1}
	}
	for _, test := range []struct {
		from, to *pod
	}{{a, b}, {a, c}, {a, d}, {d, a}} {
		rule := deny(test.from.endpoint.Group, test.to.endpoint.Group)
		for _, where := range []*bridged{r1, r2} {
			if where == r2 && test.to != c {
				continue // no packet comes by
			}
			where.give(drivers.Change{Set: []pipeline.Object{rule}})
			// The datapath's flows are updated a moment later.
			eventually(t, fmt.Sprintf("%s does not reach %s", test.from.endpoint.ID, test.to.endpoint.ID),
				func() bool { return !test.from.pings(test.to.endpoint.IPv4.String()) })
			where.give(drivers.Change{Remove: []pipeline.Key{rule.Key()}})
			test.from.reaches(test.to.endpoint.IPv4.String())
		}
	}

	// The driver restarts, and the uplink is disconnected and connected again.
	const packets = 500
	done, summary := probe(t, a, c, packets)
	r1.stop()
	r1 = n1.startVLAN()
	r1.give(onNode([]*pod{a, b, d}, c))
	<-done
	if want := fmt.Sprintf("%d packets transmitted, %d received", packets, packets); !strings.Contains(summary.String(), want) {
		t.Error(summary)
	}
	n1.Exec("ip", "link", "del", "up0")
	eventually(t, "the missing uplink is reported", func() bool { return strings.Contains(r1.uplink.Problem(), "uplink up0: there is no such link") })
	a.reaches(b.endpoint.IPv4.String())
	out.connect(n1)
	a.reaches(c.endpoint.IPv4.String())
	eventually(t, "nothing is wrong any more", func() bool { s := r1.Status(); return s.InSync && s.LastError == "" && r1.uplink.Problem() == "" })
}

func TestAnUplinkThatIsNotFreeIsLeftAlone(t *testing.T) {
	n := newNode(t)
	n.Exec("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
	n.AddBridge("br-other")
	n.Vsctl("add-port", "br-other", "up0")
	n.config.Uplinks = []string{"up0"}
	r := n.startVLAN()
	a, b := n.vlanPod(r, lanVLAN, 1, 0), n.vlanPod(r, lanVLAN, 2, 0)
	r.give(onNode([]*pod{a, b}))
	eventually(t, "who has the uplink is told", func() bool { return strings.Contains(r.uplink.Problem(), "uplink up0 is a port of bridge br-other") })
	a.reaches(b.endpoint.IPv4.String())
	n.Vsctl("del-port", "br-other", "up0")
	eventually(t, "the uplink is taken", func() bool { return strings.Contains(n.Vsctl("list-ifaces", uplink.DefaultBridge), "up0") })
	if _, err := r.AddPort(patience(t), pipeline.VXLAN, "web.blue-9", 0); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a port for the tunnels: %v", err)
	}

	// Another uplink replaces it.
	r.stop()
	n.config.Uplinks = []string{"up1"}
	r = n.startVLAN()
	r.Update(onNode([]*pod{a, b}))
	eventually(t, "the other uplink is the only one", func() bool {
		links := n.Vsctl("list-ifaces", uplink.DefaultBridge)
		return strings.Contains(links, "up1") && !strings.Contains(links, "up0")
	})
}

// A link that was a port of the pods' bridge, as in an earlier version, moves.
func TestAnUplinkMovesToItsOwnBridge(t *testing.T) {
	n := newNode(t)
	n.Exec("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
	n.Exec("ip", "link", "set", "up1", "up")
	n.AddBridge(vlanBridge, "fail_mode=secure")
	n.Vsctl("add-port", vlanBridge, "up0", "--", "set", "port", "up0", "external_ids:endpoint-id=uplinkPort")
	n.config.Uplinks = []string{"up0"}
	r := n.startVLAN()
	eventually(t, "the uplink is on its own bridge", func() bool {
		return strings.Contains(n.Vsctl("show"), uplink.DefaultBridge) && r.uplink.Problem() == "" &&
			strings.Contains(n.Vsctl("list-ifaces", uplink.DefaultBridge), "up0")
	})
	if ports := n.Vsctl("list-ports", vlanBridge); strings.TrimSpace(ports) != uplink.PatchPort {
		t.Errorf("ports of %s: %s", vlanBridge, ports)
	}
}

// The drivers of the two bridges leave each other's links and rows alone.
func TestTwoBridgesShareASwitch(t *testing.T) {
	n := newNode(t)
	n.Exec("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
	tunnel := n.start()
	n.config.Uplinks = []string{"up0"}
	vlan := n.startVLAN()
	tunnel.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	vlan.give(onNode(nil))
	for i := range byte(10) {
		tunnel.add(endpoint(2*i, 0).ID)
		if _, err := vlan.AddPort(patience(t), pipeline.VLAN, endpoint(2*i+1, 0).ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		if a, b := tunnel.Ports(), vlan.Ports(); len(a) != 10 || len(b) != 10 || len(n.links()) != 40 {
			t.Fatalf("round %d: %v and %v, links %v", round, a, b, n.links())
		}
		for r, want := range map[*running]string{tunnel: bridge, vlan.running: vlanBridge} {
			if s := r.Status(); s.Bridge != want || !s.InSync || s.Ports != 10 || s.LastError != "" {
				t.Errorf("round %d: %+v", round, s)
			}
		}
		tunnel.stop()
		vlan.stop()
		vlan = n.startVLAN()
		vlan.give(onNode(nil))
		n.config.Uplinks = nil
		tunnel = n.start()
		n.config.Uplinks = []string{"up0"}
		tunnel.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	}
	if err := vlan.RemovePort(patience(t), endpoint(1, 0).ID); err != nil {
		t.Error(err)
	}
	if err := vlan.RemovePort(patience(t), endpoint(0, 0).ID); err != nil || len(tunnel.Ports()) != 10 {
		t.Errorf("%v, %v", err, tunnel.Ports())
	}
}
