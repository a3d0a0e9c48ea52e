package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/test/testkit"
)

// cluster is up to three nodes, each a real Open vSwitch, connected by VXLAN, and pods on them. Its switches have
// the flows of the pipeline and no others.
type cluster struct {
	t     *testing.T
	nodes []*node
	pods  map[string]*pod // by endpoint id

	networks []Network // the example's, or a test's changes of them
	epoch    uint32    // of the tiers
	trunks   bool      // the nodes are connected by uplinks, not by tunnels
}

type node struct {
	*ovstest.Switch
	vtep     netip.Addr
	mac      string // of the bridge with the tunnel address
	cabled   int    // of the first node: ends of the cable
	pipeline *Pipeline
}

const bridge = "br-int"

// startCluster starts the nodes of the endpoints and a pod for each, and programs the networks and endpoints of
// the example.
func startCluster(t *testing.T, endpoints ...Endpoint) *cluster {
	t.Helper()
	c := &cluster{t: t, pods: map[string]*pod{}, networks: []Network{webBlue, dbBlue, webRed}}
	return c.start(endpoints...)
}

// startTrunks is startCluster for networks on VLANs, to which nodes are connected by their uplinks.
func startTrunks(t *testing.T, endpoints ...Endpoint) *cluster {
	t.Helper()
	c := &cluster{t: t, pods: map[string]*pod{}, trunks: true}
	return c.start(endpoints...)
}

func (c *cluster) start(endpoints ...Endpoint) *cluster {
	c.t.Helper()
	for _, e := range endpoints {
		n := c.nodeOf(e.VTEP)
		p := &pod{Endpoint: e, t: c.t, node: n, port: uint32(10 + len(c.pods)), netns: fmt.Sprintf("%s-%d", n.Netns, len(c.pods))}
		c.pods[e.ID] = p
		p.start()
		if in := networkOf(e); in.Mode.Bridged() && !slices.Contains(c.networks, in) {
			c.networks = append(c.networks, in)
		}
	}
	c.program()
	return c
}

// nodeOf returns the node with a tunnel address, and starts it if need be.
func (c *cluster) nodeOf(vtep netip.Addr) *node {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.vtep == vtep {
			return n
		}
	}
	n := &node{
		Switch:   ovstest.Start(c.t),
		vtep:     vtep,
		pipeline: New(Config{TunnelPort: exampleTunnelPort, LocalVTEP: vtep, MTU: 1450}),
	}
	c.nodes = append(c.nodes, n)
	n.AddBridge(bridge)
	c.t.Cleanup(func() { n.wentRoundTooOften(c.t) })
	if c.trunks {
		n.pipeline = New(Config{UplinkPort: exampleTunnelPort})
		c.trunk(n)
		return n
	}
	n.Vsctl("add-port", bridge, "vxlan", "--", "set", "interface", "vxlan", "type=vxlan",
		"options:remote_ip=flow", "options:key=flow", "options:tos=inherit", "options:local_ip="+vtep.String(), fmt.Sprintf("ofport_request=%d", exampleTunnelPort))
	switch len(c.nodes) {
	case 1: // a single node
	case 2:
		c.join(c.nodes[0])
		fallthrough
	default:
		c.join(n)
	}
	return n
}

// wentRoundTooOften reports packets that the tables have recirculated, through the connection tracker or a group,
// until the datapath dropped them.
func (n *node) wentRoundTooOften(t *testing.T) {
	t.Helper()
	if got := strings.TrimSpace(n.Appctl("coverage/read-counter", "datapath_drop_recirc_error")); got != "0" {
		t.Errorf("%s packets went round until the datapath gave up", got)
	}
}

// join connects a node to the cable of all nodes, and adds the routes and neighbours between it and the others.
func (c *cluster) join(n *node) {
	c.t.Helper()
	c.plugIn(n)
	n.mac = strings.Fields(n.Exec("ip", "-br", "link", "show", "dev", "uplink"))[2]
	// The tunnel address must be on the local port of a bridge: the userspace datapath finds it only there.
	n.AddBridge("br-phy", fmt.Sprintf("other-config:hwaddr=%q", n.mac), "fail_mode=standalone")
	n.Vsctl("add-port", "br-phy", "uplink")
	if n.vtep.Is4() {
		n.withoutIPv6("br-phy")
		n.Exec("ip", "addr", "add", n.vtep.String()+"/24", "dev", "br-phy")
	} else {
		n.Exec("ip", "addr", "add", n.vtep.String()+"/64", "dev", "br-phy", "nodad")
	}
	n.Exec("ip", "link", "set", "br-phy", "up")
	// The switch drops packets for a node whose MAC it does not know yet. With the neighbours added in advance, it
	// loses no frame of a test.
	for _, peer := range c.nodes {
		if peer.mac == "" || peer == n {
			continue
		}
		for _, way := range [][2]*node{{n, peer}, {peer, n}} {
			way[0].Appctl("tnl/neigh/set", "br-phy", way[1].vtep.String(), way[1].mac)
			if eventually(func() string { return way[0].routeTo(way[1]) }) == "" {
				c.t.Fatalf("node %s knows no way to node %s", way[0].vtep, way[1].vtep)
			}
		}
	}
}

// trunk connects a node to the VLANs of the cable.
func (c *cluster) trunk(n *node) {
	c.t.Helper()
	c.plugIn(n)
	n.Vsctl("add-port", bridge, "uplink", "--", "set", "interface", "uplink", fmt.Sprintf("ofport_request=%d", exampleTunnelPort))
}

// plugIn makes the link uplink of a node an end of the cable, which is a bridge of the kernel on the first node.
// IPv6 addresses, which would be added automatically a while later, would make the switch read its routes again,
// and drop tunnelled packets meanwhile.
func (c *cluster) plugIn(n *node) {
	c.t.Helper()
	hub := c.nodes[0]
	if hub.cabled == 0 {
		// Netfilter rules for bridges would block packets in the hub.
		hub.Exec("sh", "-ec", `
ip link add cable type bridge mcast_snooping 0
echo 1 > /proc/sys/net/ipv6/conf/cable/disable_ipv6
for f in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do [ ! -e $f ] || echo 0 > $f; done
ip link set cable up`)
	}
	hub.cabled++
	end := fmt.Sprint("cable", hub.cabled)
	hub.Exec("sh", "-ec", `
ip link add "$1" type veth peer name uplink netns "$2"
echo 1 > "/proc/sys/net/ipv6/conf/$1/disable_ipv6"
ip link set "$1" master cable up`, "sh", end, n.Netns)
	n.Exec("sh", "-ec", "echo 1 > /proc/sys/net/ipv6/conf/uplink/disable_ipv6; ip link set uplink up")
	hub.AwaitLink(end)
}

func (n *node) withoutIPv6(link string) {
	n.Exec("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/"+link+"/disable_ipv6")
}

// settle returns when the switches have processed all changes of links. Each query is answered in another round of
// their main loop, and a round reads the changes of links and routes after it answers.
func (c *cluster) settle() {
	for _, n := range c.nodes {
		for range 3 {
			n.Appctl("version")
		}
	}
}

// routeTo returns the switch's own route to another node; empty until it has read the kernel's.
func (n *node) routeTo(peer *node) string {
	route, err := n.Try("ovs-appctl", "-t", filepath.Join(n.RunDir, "ovs-vswitchd.ctl"), "ovs/route/lookup", peer.vtep.String())
	if err != nil || !strings.Contains(route, "dev br-phy") {
		return ""
	}
	return route
}

// program replaces the flows of all switches by those of the example's networks, the cluster's endpoints and more
// objects, such as rules.
func (c *cluster) program(more ...Object) {
	c.t.Helper()
	for _, n := range c.nodes {
		c.programNode(n, more...)
	}
}

func (c *cluster) programNode(n *node, more ...Object) {
	c.t.Helper()
	n.replace(c.t, c.wants(n, more...))
}

// wants returns everything that a node's switch needs.
func (c *cluster) wants(n *node, more ...Object) Wants {
	wants := n.pipeline.Base()
	for _, o := range c.networks {
		wants.add(wantsOf(n.pipeline, o, 0))
		if o.Mode.Bridged() {
			wants.add(wantsOf(n.pipeline, c.floodSet(n, o), 0))
		}
	}
	for _, peer := range c.nodes {
		wants.add(wantsOf(n.pipeline, Peer{peer.vtep}, 0))
	}
	for _, o := range more {
		var port uint32
		if o.Key().Kind == KindOutside {
			port = portOf(o)
		}
		wants.add(wantsOf(n.pipeline, o, port))
	}
	for _, p := range c.pods {
		e := p.Endpoint
		if p.node == n {
			e = here(e)
		}
		wants.add(wantsOf(n.pipeline, e, p.port))
	}
	return wants
}

// floodSet returns the members of a network as a node knows them.
func (c *cluster) floodSet(n *node, in Network) FloodSet {
	s := FloodSet{Network: in.ID, Encap: in.Encap, VNI: in.VNI, Tag: in.Tag}
	for _, p := range c.pods {
		switch {
		case p.Network != in.ID:
		case p.node == n:
			s.Members = append(s.Members, p.MAC)
		case !slices.Contains(s.VTEPs, p.VTEP):
			s.VTEPs = append(s.VTEPs, p.VTEP)
		}
	}
	slices.SortFunc(s.Members, func(a, b mac) int { return bytes.Compare(a[:], b[:]) })
	slices.SortFunc(s.VTEPs, netip.Addr.Compare)
	return s
}

// replace makes the switch have exactly what is wanted, and empties the datapath.
func (n *node) replace(t *testing.T, wants Wants) {
	t.Helper()
	n.write(t, wants)
	n.forget()
}

// forget empties the datapath. Revalidators pause meanwhile: a flow that one of them is processing would be
// skipped, however often it is deleted.
func (n *node) forget() {
	n.Appctl("revalidator/pause")
	n.Appctl("revalidator/purge")
	n.Appctl("revalidator/resume")
}

// write makes the switch have exactly what is wanted, the flows in one step.
func (n *node) write(t *testing.T, wants Wants) {
	t.Helper()
	meters := []openflow.Message{openflow.MeterMod{Command: openflow.MeterDelete, Meter: openflow.Meter{ID: openflow.MeterAll}}}
	for _, m := range wants.Meters {
		meters = append(meters, openflow.MeterMod{Meter: m})
	}
	bundle := []openflow.Message{
		openflow.FlowMod{Command: openflow.FlowDelete, Flow: openflow.Flow{Table: openflow.TableAll}},
		openflow.GroupMod{Command: openflow.GroupDelete, Group: openflow.Group{ID: openflow.GroupIDAll}},
	}
	for _, g := range wants.Groups {
		bundle = append(bundle, openflow.GroupMod{Group: g})
	}
	for _, f := range wants.Flows {
		bundle = append(bundle, openflow.FlowMod{Command: openflow.FlowAdd, Flow: f})
	}
	n.connected(t, func(conn *openflow.Conn) error {
		if err := conn.Send(t.Context(), meters...); err != nil {
			return err
		}
		return conn.Bundle(t.Context(), bundle...)
	})
}

// connected calls do with a connection to the switch.
func (n *node) connected(t *testing.T, do func(*openflow.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	conn, err := openflow.Dial(ctx, n.Bridge(bridge), openflow.Options{OnEvent: func(openflow.Message) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := do(conn); err != nil {
		t.Fatal(err)
	}
}

// know adds endpoints of another node that has not been started. Queries for them may be answered, but not by
// themselves.
func (c *cluster) know(absent ...Endpoint) {
	c.t.Helper()
	for _, e := range absent {
		c.pods[e.ID] = &pod{Endpoint: e}
	}
	c.program()
}

func (c *cluster) pod(e Endpoint) *pod { return c.pods[e.ID] }

// soon is the time limit for anything that must happen, on a busy machine.
const soon = 30 * time.Second

// eventually calls answer until it returns a text; "" after the time limit.
func eventually(answer func() string) (got string) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	_ = testkit.Until(ctx, "an answer", func() bool {
		got = answer()
		return got != ""
	}) // "" after the time limit
	return got
}
