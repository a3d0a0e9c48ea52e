package tracing_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/contivmodel/hops"
	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/tracing"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/utils/fault"
)

var update = flag.Bool("update", false, "write the golden file anew")

// An example of a node: web and db are networks of blue; the group 7 may not reach port 22 of group 8.
var (
	here, there = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

	web = pipeline.Network{ID: "web.blue", Tenant: "blue", VRF: 1, VNI: 5001, Tag: 1,
		Subnet: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.254"),
		Subnet6: netip.MustParsePrefix("fd00:1::/64"), Gateway6: netip.MustParseAddr("fd00:1::fe")}
	db = pipeline.Network{ID: "db.blue", Tenant: "blue", VRF: 1, VNI: 5002, Tag: 2,
		Subnet: netip.MustParsePrefix("10.2.0.0/24"), Gateway: netip.MustParseAddr("10.2.0.254")}
	web1, web2 = endpointOf(web, 1, 7, true), endpointOf(web, 2, 7, true)
	web9, db1  = endpointOf(web, 9, 7, false), endpointOf(db, 1, 8, true)
	slow1      = slowed(endpointOf(web, 3, 7, true))
	noSSH      = pipeline.Rule{ID: "blue:db:blue:p1:1:inRx", Priority: 10, SrcGroup: 7, DstGroup: 8, Protocol: 6, DstPort: 22}
)

// An isolated endpoint, and what its group allows: finally.
var (
	isolated = func() pipeline.Endpoint {
		e := endpointOf(db, 4, 9, true)
		e.Class, e.Tiers = 5, pipeline.JudgesIn|pipeline.IsolatesIn
		return e
	}()
	isolated6 = func() pipeline.Endpoint {
		e := endpointOf(web, 6, 0, true)
		e.IPv4, e.Class, e.Tiers = netip.Addr{}, 6, pipeline.JudgesIn|pipeline.IsolatesIn
		return e
	}()
	byWeb2   = pipeline.TierRule{ID: "networkpolicy/blue/web2#0", Tier: pipeline.PolicyTier, Number: 1, Subjects: []uint16{6}, Nets: []netip.Prefix{netip.PrefixFrom(web2.IPv6, 128)}}
	finalSQL = pipeline.Rule{ID: "blue:sql:blue:p2:1:inRx", Priority: 10, DstGroup: 9, Protocol: 6, DstPort: 5432, Allow: true, Ends: pipeline.EndsIn}
)

// A service without providers, and one that remembers whose provider web-9 is.
var (
	nobody = pipeline.Service{ID: "nobody:blue", VRF: 1, Tag: 1, Ports: []pipeline.ServicePort{
		portAt("10.1.0.201", 6, 53), portAt("10.1.0.201", 17, 53), portAt("fd00:1::201", 6, 53), portAt("fd00:1::201", 17, 53)}}.Numbered(func(uint32) bool { return false })
	shop = pipeline.Service{ID: "shop:blue", VRF: 1, Tag: 1, Affinity: 300, Providers: []netip.Addr{web1.IPv4, web9.IPv4}, Ports: []pipeline.ServicePort{
		portAt("10.1.0.200", 6, 80)}}.Numbered(func(number uint32) bool { return number < 1000 })
)

func portAt(address string, protocol uint8, port uint16) pipeline.ServicePort {
	return pipeline.ServicePort{Address: netip.MustParseAddr(address), From: pipeline.FromPods, Protocol: protocol, Port: port, Target: 8000 + port}
}

// tableOf returns the number of a table.
func tableOf(t *testing.T, name string) uint8 {
	t.Helper()
	for id := range uint8(255) {
		if table, known := pipeline.TableNamed(id); known && table.Name == name {
			return id
		}
	}
	t.Fatalf("there is no table %s", name)
	return 0
}

// Two tenants with routed VLANs, which share a VRF, and bridged networks of both kinds. The VLANs' tags are
// in the third byte of addresses, as above.
var (
	redLAN, blueLAN = lan("lan.red", "red", 21, pipeline.Routed), lan("lan.blue", "blue", 22, pipeline.Routed)
	wire            = lan("wire.red", "red", 23, pipeline.BridgedFlood)
	cable           = pipeline.Network{ID: "cable.red", Tenant: "red", Mode: pipeline.BridgedFlood, VRF: 2, VNI: 5024, Tag: 24,
		Subnet: netip.MustParsePrefix("10.24.0.0/24")}
	red1, red2          = endpointOf(redLAN, 1, 7, true), endpointOf(redLAN, 2, 7, true)
	blue1, blue9        = endpointOf(blueLAN, 1, 8, true), endpointOf(blueLAN, 9, 8, false)
	wire1, wire2        = endpointOf(wire, 1, 7, true), endpointOf(wire, 2, 7, true)
	cable1, cable2      = endpointOf(cable, 1, 7, true), endpointOf(cable, 2, 7, true)
	blueNoSSH, redNoFTP = pipeline.Rule{ID: "blue:lan:blue:p1:1:inRx", Priority: 10, DstGroup: 8, Protocol: 6, DstPort: 22},
		pipeline.Rule{ID: "red:lan:red:p1:1:inRx", Priority: 10, DstGroup: 7, Protocol: 6, DstPort: 21}
	router   = pipeline.Router{ID: "inb01", MAC: [6]byte{2, 2, 198, 18, 5, 9}, IPv4: netip.MustParseAddr("198.18.5.9")}
	spine    = pipeline.NextHop{Address: netip.MustParseAddr("198.18.5.1"), MAC: [6]byte{2, 2, 198, 18, 5, 1}, From: router.MAC}
	world    = pipeline.Route{Prefix: netip.MustParsePrefix("203.0.113.0/24"), NextHop: spine.Address}
	toBlue9  = pipeline.Route{Prefix: netip.MustParsePrefix("10.22.0.9/32"), NextHop: spine.Address}
	blueShop = pipeline.Service{ID: "shop:blue", Encap: pipeline.VLAN, VRF: pipeline.SharedVRF, Tag: 22, Providers: []netip.Addr{blue1.IPv4},
		Ports: []pipeline.ServicePort{{Address: netip.MustParseAddr("10.22.0.200"), From: pipeline.FromPods, Protocol: 6, Port: 80, Target: 8080}}}.Numbered(func(uint32) bool { return false })
)

func lan(id, tenant string, tag uint16, mode pipeline.Mode) pipeline.Network {
	n := pipeline.Network{ID: id, Tenant: tenant, Mode: mode, Encap: pipeline.VLAN, VRF: 2, Tag: tag, Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(tag), 0, 0}), 24)}
	if mode == pipeline.Routed {
		n.VRF, n.Gateway = pipeline.SharedVRF, netip.AddrFrom4([4]byte{10, byte(tag), 0, 254})
	}
	return n
}

func slowed(e pipeline.Endpoint) pipeline.Endpoint {
	e.Slowed = true
	return e
}

func endpointOf(n pipeline.Network, number byte, group uint16, local bool) pipeline.Endpoint {
	e := pipeline.Endpoint{ID: fmt.Sprintf("%s-%d", n.ID, number), Network: n.ID, Tenant: n.Tenant, Mode: n.Mode, Encap: n.Encap, VRF: n.VRF, VNI: n.VNI, Tag: n.Tag, Group: group,
		IPv4: netip.AddrFrom4([4]byte{10, byte(n.Tag), 0, number}), MAC: [6]byte{2, 2, 10, byte(n.Tag), 0, number}, Local: local}
	if n.Subnet6.IsValid() {
		e.IPv6 = netip.AddrFrom16([16]byte{0xfd, 0, 0, byte(n.Tag), 15: number})
	}
	if !local && n.Encap == pipeline.VXLAN {
		e.VTEP = there
	}
	return e
}

// startTracer programs a switch with objects and returns it with its tracer.
func startTracer(t *testing.T, objects ...pipeline.Object) (tracing.Tracer, *ovstest.Switch) {
	t.Helper()
	return startTracerWith(t, ovsd.Config{}, objects...)
}

// startTracerWith is startTracer with more in the configuration of the bridge with the tunnels.
func startTracerWith(t *testing.T, config ovsd.Config, objects ...pipeline.Object) (tracing.Tracer, *ovstest.Switch) {
	t.Helper()
	sw := ovstest.Start(t)
	sw.Exec("ip", "link", "add", "under0", "type", "veth", "peer", "name", "under1")
	sw.Exec("ip", "address", "add", here.String()+"/24", "dev", "under0")
	sw.Exec("ip", "link", "set", "under0", "up")
	ns, err := netns.GetFromName(sw.Netns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	config.RunDir, config.VTEP, config.NetNS = sw.RunDir, here, &ns
	tunnel, err := ovsd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	own := []*ovsd.Driver{tunnel}
	run(t, tunnel.Run)
	if slices.ContainsFunc(objects, onVLAN) {
		sw.Exec("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
		vlan, err := ovsd.New(ovsd.Config{RunDir: sw.RunDir, Uplinks: []string{"up0"}, NetNS: &ns})
		if err != nil {
			t.Fatal(err)
		}
		links, err := uplink.New(uplink.Config{RunDir: sw.RunDir, Serves: ovsd.DefaultUplinkBridge, Links: []string{"up0"}, NetNS: &ns, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		run(t, links.Run)
		run(t, vlan.Run)
		own = append(own, vlan)
	}
	patience, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	for _, object := range objects {
		encap, wanted := pipeline.VLAN, false
		switch o := object.(type) {
		case pipeline.Endpoint:
			encap, wanted = o.Encap, o.Local
		case pipeline.Router:
			wanted = true
		}
		if wanted {
			port, err := own[encap].AddPort(patience, encap, object.Key().ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			if e, is := object.(pipeline.Endpoint); is && e.Slowed {
				sw.Vsctl("set", "interface", port.HostLink, fmt.Sprintf("external_ids:slowed=\"on %d 300000\"", time.Now().Add(4*time.Minute).UnixMilli()))
			}
		}
	}
	tracer := tracing.Tracer{Inspect: func() agent.Inspection {
		return agent.Inspection{HostLabel: "node1", VTEP: here, Peers: map[string]netip.Addr{"node2": there}, Objects: objects}
	}}
	for i, driver := range own {
		driver.Update(drivers.Change{Replace: true, Set: slices.DeleteFunc(slices.Clone(objects), func(o pipeline.Object) bool {
			_, rule := o.(pipeline.Rule)
			return !rule && onVLAN(o) != (i == 1)
		})})
		if err := driver.Sync(patience); err != nil {
			t.Fatal(err)
		}
		tracer.Switches = append(tracer.Switches, driver)
	}
	return tracer, sw
}

func onVLAN(object pipeline.Object) bool {
	switch o := object.(type) {
	case pipeline.Network:
		return o.Encap == pipeline.VLAN
	case pipeline.Endpoint:
		return o.Encap == pipeline.VLAN
	case pipeline.FloodSet:
		return o.Encap == pipeline.VLAN
	case pipeline.Service:
		return o.Encap == pipeline.VLAN
	case pipeline.Router, pipeline.NextHop, pipeline.Route:
		return true
	}
	return false
}

// run has something run until the test has ended.
func run(t *testing.T, it func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- it(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// story is a query, and the expected answer.
type story struct {
	name, exit, reason string
	query              tracing.Query
}

// told compares a switch's answers with a golden file.
func told(t *testing.T, tracer tracing.Tracer, file string, stories []story) (text string) {
	t.Helper()
	var out strings.Builder
	for _, story := range stories {
		hop, err := tracer.Trace(t.Context(), story.query)
		if err != nil {
			t.Errorf("%s: %v", story.name, err)
			continue
		}
		if hop.Exit != story.exit || hop.Reason != story.reason {
			t.Errorf("%s: %s %q, want %s %q\n%+v", story.name, hop.Exit, hop.Reason, story.exit, story.reason, hop)
		}
		fmt.Fprintf(&out, "# %s\n%s\n", story.name, hop.Packet)
		for _, s := range hop.Steps {
			fmt.Fprintf(&out, "  %-9s %-30s %s\n", s.Table, s.Of, s.Does)
		}
		fmt.Fprintf(&out, "= %s\n\n", strings.TrimRight(strings.Join([]string{hop.Exit, strings.TrimSpace(hop.To + " " + hop.NextTo), hop.Reason, hop.Table, hop.Of, hop.Note}, " | "), " |"))
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("%s (write it anew with -update, if it is right):\n%s", file, diff)
	}
	return out.String()
}

// The stories of testdata/traces.txt are the answers of a real switch; "-update" writes them again.
func TestItIsToldWhatBecomesOfAPacket(t *testing.T) {
	tracer, sw := startTracer(t, web, db, web1, web2, web9, db1, slow1, noSSH, isolated, isolated6, finalSQL, byWeb2, nobody, shop)
	sw.Ofctl("add-flow", ovsd.DefaultBridge, fmt.Sprintf("table=%d,idle_timeout=300,priority=100,ip,nw_src=%s,actions=set_field:0x0a010009->reg15", tableOf(t, "AFFINITY"), web2.IPv4))
	told(t, tracer, "testdata/traces.txt", []story{
		{"a neighbour", hops.Delivered, "", tracing.Query{From: web1.ID, To: web2.ID, Protocol: "tcp", Port: 80}},
		{"by the gateway", hops.Delivered, "", tracing.Query{From: web1.ID, To: "10.2.0.1", Protocol: "tcp", Port: 80}},
		{"denied by a rule", hops.Dropped, "denied", tracing.Query{From: web1.ID, To: db1.ID, Protocol: "tcp", Port: 22}},
		{"a forged sender", hops.Dropped, "forged", tracing.Query{From: web1.ID, To: web2.ID, Protocol: "udp", Port: 53, Source: web2.IPv4}},
		{"what DHCP servers send", hops.Dropped, "server", tracing.Query{From: web1.ID, To: web2.ID, Protocol: "udp", Port: 68}},
		{"nobody has the address", hops.Dropped, "no neighbour", tracing.Query{From: web1.ID, To: "10.1.0.77", Protocol: "tcp", Port: 80}},
		{"nobody has the address of IPv6", hops.Dropped, "no neighbour", tracing.Query{From: web1.ID, To: "fd00:1::77", Protocol: "tcp", Port: 80}},
		{"nobody has it anywhere", hops.Dropped, "no route", tracing.Query{From: web1.ID, To: "203.0.113.9", Protocol: "icmp"}},
		{"what nobody routes", hops.Dropped, "multicast", tracing.Query{From: web1.ID, To: "224.0.0.251", Protocol: "udp", Port: 5353}},
		{"what nobody routes, over IPv6", hops.Dropped, "multicast", tracing.Query{From: web1.ID, To: "ff02::fb", Protocol: "udp", Port: 5353}},
		{"a ping for the gateway", hops.Answered, "", tracing.Query{From: web1.ID, To: "10.1.0.254", Protocol: "icmp"}},
		{"from a port that is slowed down", hops.Delivered, "", tracing.Query{From: slow1.ID, To: web2.ID, Protocol: "tcp", Port: 80}},
		{"and a ping for the gateway from there", hops.Answered, "", tracing.Query{From: slow1.ID, To: "10.1.0.254", Protocol: "icmp"}},
		{"out of the tunnel", hops.Delivered, "", tracing.Query{From: web9.ID, To: web1.ID, Protocol: "sctp", Port: 80}},
		{"out of the tunnel, and denied here, too", hops.Dropped, "denied", tracing.Query{From: web9.ID, To: db1.ID, Protocol: "tcp", Port: 22}},
		{"out of the tunnel, from somebody else", hops.Dropped, "other node", tracing.Query{From: web9.ID, To: web1.ID, Protocol: "tcp", Port: 80, Source: web2.IPv4}},
		{"allowed by a rule that is final", hops.Delivered, "", tracing.Query{From: web1.ID, To: isolated.ID, Protocol: "tcp", Port: 5432}},
		{"allowed out of the tunnel", hops.Delivered, "", tracing.Query{From: web9.ID, To: isolated.ID, Protocol: "tcp", Port: 5432}},
		{"allowed over IPv6, by a policy about the address", hops.Delivered, "", tracing.Query{From: web2.ID, To: isolated6.ID, Protocol: "udp", Port: 53}},
		{"allowed by it to be pinged", hops.Delivered, "", tracing.Query{From: web2.ID, To: isolated6.ID, Protocol: "icmp"}},
		{"and not by others", hops.Dropped, "network policies", tracing.Query{From: web1.ID, To: isolated6.ID, Protocol: "udp", Port: 53}},
		{"for a service without providers", hops.Dropped, "no provider", tracing.Query{From: web1.ID, To: "10.1.0.201", Protocol: "tcp", Port: 53}},
		{"the same, UDP", hops.Dropped, "no provider", tracing.Query{From: web1.ID, To: "10.1.0.201", Protocol: "udp", Port: 53}},
		{"over IPv6, UDP", hops.Dropped, "no provider", tracing.Query{From: web1.ID, To: "fd00:1::201", Protocol: "udp", Port: 53}},
		{"over IPv6, TCP", hops.Dropped, "no provider", tracing.Query{From: web1.ID, To: "fd00:1::201", Protocol: "tcp", Port: 53}},
		{"for a service, which chooses a provider", hops.Unknown, "", tracing.Query{From: web1.ID, To: "10.1.0.200", Protocol: "tcp", Port: 80}},
		{"of a client whose provider is remembered", hops.Tunnel, "", tracing.Query{From: web2.ID, To: "10.1.0.200", Protocol: "tcp", Port: 80}},
		{"a ping over IPv4, which nothing allows", hops.Dropped, "network policies", tracing.Query{From: web1.ID, To: isolated.ID, Protocol: "icmp"}},
		{"about which it says nothing", hops.Dropped, "network policies", tracing.Query{From: web1.ID, To: isolated.ID, Protocol: "tcp", Port: 5433}},
	})

	for _, wrong := range []struct {
		query tracing.Query
		kind  fault.Kind
	}{
		{tracing.Query{From: "web.blue-5", To: web1.ID, Protocol: "tcp", Port: 80}, fault.NotFound},
		{tracing.Query{From: web1.ID, To: "shop", Protocol: "tcp", Port: 80}, fault.NotFound},
		{tracing.Query{From: web1.ID, To: "fe80::1%eth0", Protocol: "tcp", Port: 80}, fault.NotFound},
		{tracing.Query{From: web1.ID, To: web2.ID, Protocol: "tcp,in_port=1", Port: 80}, fault.Invalid},
		{tracing.Query{From: web1.ID, To: web2.ID, Protocol: "tcp"}, fault.Invalid},
		{tracing.Query{From: web1.ID, To: web2.ID, Protocol: "tcp", Port: 80, Source: web2.IPv6}, fault.Invalid},
		{tracing.Query{From: web1.ID, To: web1.ID, Protocol: "tcp", Port: 80}, fault.Invalid},
		{tracing.Query{From: web1.ID, To: "fd00:1::1", Protocol: "icmp", Source: web2.IPv6}, fault.Invalid},
		{tracing.Query{From: db1.ID, To: "fd00:1::1", Protocol: "tcp", Port: 80}, fault.Invalid},
		{tracing.Query{From: web9.ID, To: "10.1.0.78", Protocol: "tcp", Port: 80}, fault.NotFound},
	} {
		if hop, err := tracer.Trace(t.Context(), wrong.query); !fault.Is(err, wrong.kind) {
			t.Errorf("%+v: %v, %+v", wrong.query, err, hop)
		}
	}
}

// The name server is behind a port that is no endpoint's.
func TestTheNameServerIsNamed(t *testing.T) {
	place := fmt.Sprintf("names%d", time.Now().UnixNano())
	t.Cleanup(func() { _ = netns.DeleteNamed(place) })
	tracer, _ := startTracerWith(t, ovsd.Config{Names: true, NamesNetNS: place}, web, web1)
	for _, server := range []string{"10.1.0.254", "fd00:1::fe"} {
		hop, err := tracer.Trace(t.Context(), tracing.Query{From: web1.ID, To: server, Protocol: "udp", Port: 53})
		if err != nil || hop.Exit != hops.Delivered || hop.To != "the node's name server" {
			t.Errorf("a question for %s: %v, %s to %q", server, err, hop.Exit, hop.To)
		}
	}
}

// VLANs share a routing domain, but not its details: of another tenant's objects only the kinds are shown.
func TestNothingIsToldOfOtherTenants(t *testing.T) {
	tracer, _ := startTracer(t, redLAN, blueLAN, wire, cable, red1, red2, blue1, blue9, wire1, wire2, cable1, cable2, blueNoSSH, redNoFTP, blueShop, router, spine, world, toBlue9,
		floodSet(wire, wire1, wire2), floodSet(cable, cable1, cable2))
	text := told(t, tracer, "testdata/vlans.txt", []story{
		{"a neighbour", hops.Delivered, "", tracing.Query{From: red1.ID, To: red2.ID, Protocol: "tcp", Port: 80}},
		{"another tenant's", hops.Delivered, "", tracing.Query{From: red1.ID, To: "10.22.0.1", Protocol: "tcp", Port: 80}},
		{"denied by a rule", hops.Dropped, "denied", tracing.Query{From: red1.ID, To: "10.21.0.2", Protocol: "tcp", Port: 21}},
		{"denied by another tenant's rule", hops.Dropped, "denied", tracing.Query{From: red1.ID, To: "10.22.0.1", Protocol: "tcp", Port: 22}},
		{"another tenant's service", hops.Unknown, "", tracing.Query{From: red1.ID, To: "10.22.0.200", Protocol: "tcp", Port: 80}},
		{"a port that another tenant's service does not have", hops.Dropped, "no provider", tracing.Query{From: red1.ID, To: "10.22.0.200", Protocol: "tcp", Port: 81}},
		{"a UDP port that it does not have", hops.Dropped, "no provider", tracing.Query{From: red1.ID, To: "10.22.0.200", Protocol: "udp", Port: 81}},
		{"a SCTP port that it does not have", hops.Dropped, "no provider", tracing.Query{From: red1.ID, To: "10.22.0.200", Protocol: "sctp", Port: 81}},
		{"another tenant's on another node", hops.Uplink, "", tracing.Query{From: red1.ID, To: "10.22.0.9", Protocol: "tcp", Port: 80}},
		{"the world", hops.Uplink, "", tracing.Query{From: red1.ID, To: "203.0.113.9", Protocol: "icmp"}},
		{"a neighbour on a wire", hops.Delivered, "", tracing.Query{From: wire1.ID, To: wire2.ID, Protocol: "tcp", Port: 80}},
		{"nobody has it on a wire", hops.Unknown, "", tracing.Query{From: wire1.ID, To: "10.23.0.77", Protocol: "tcp", Port: 80}},
		{"a neighbour in a tunnel's network", hops.Delivered, "", tracing.Query{From: cable1.ID, To: cable2.ID, Protocol: "tcp", Port: 80}},
		{"nobody has it in a tunnel's network", hops.Unknown, "", tracing.Query{From: cable1.ID, To: "10.24.0.77", Protocol: "tcp", Port: 80}},
	})
	if strings.Contains(text, "blue") {
		t.Errorf("red is told of blue:\n%s", text)
	}
}

// In bridged networks the switch answers for services and the name server, and for no gateway.
func TestInBridgedNetworksTheNextMACIsTheRightOne(t *testing.T) {
	yard := cable
	yard.ID, yard.VNI, yard.Tag, yard.Subnet, yard.Gateway = "yard.red", 5025, 25, netip.MustParsePrefix("10.25.0.0/24"), netip.MustParseAddr("10.25.0.254")
	yard1, yard2 := endpointOf(yard, 1, 7, true), endpointOf(yard, 2, 7, true)
	shop := pipeline.Service{ID: "shop:red", Encap: pipeline.VXLAN, Mode: cable.Mode, VRF: cable.VRF, Tag: cable.Tag, Providers: []netip.Addr{cable2.IPv4},
		Ports: []pipeline.ServicePort{{Address: netip.MustParseAddr("10.24.0.200"), From: pipeline.FromPods, Protocol: 6, Port: 80, Target: 8080}}}.Numbered(func(uint32) bool { return false })
	place := fmt.Sprintf("names%d", time.Now().UnixNano())
	t.Cleanup(func() { _ = netns.DeleteNamed(place) })
	tracer, _ := startTracerWith(t, ovsd.Config{Names: true, NamesNetNS: place}, cable, yard, cable1, cable2, yard1, yard2, shop, floodSet(cable, cable1, cable2), floodSet(yard, yard1, yard2))
	for _, c := range []struct{ name, from, to, protocol, exit, reason, receiver string }{
		{"a service", cable1.ID, "10.24.0.200", "tcp", hops.Unknown, "", ""},
		{"a protocol that it does not serve", cable1.ID, "10.24.0.200", "udp", hops.Dropped, "no provider", ""},
		{"a ping for it", cable1.ID, "10.24.0.200", "icmp", hops.Answered, "", ""},
		{"all that listen to an address", cable1.ID, "224.0.0.251", "udp", hops.Unknown, "", ""},
		{"everybody", cable1.ID, "255.255.255.255", "udp", hops.Unknown, "", ""},
		{"the name server", cable1.ID, "169.254.0.1", "icmp", hops.Answered, "", ""},
		{"the gateway, which is somebody's outside", yard1.ID, "10.25.0.254", "tcp", hops.Unknown, "", ""},
	} {
		hop, err := tracer.Trace(t.Context(), tracing.Query{From: c.from, To: c.to, Protocol: c.protocol, Port: 80})
		if err != nil || hop.Exit != c.exit || hop.Reason != c.reason || hop.To != c.receiver {
			t.Errorf("%s: %v, %s %q to %q, want %s %q to %q", c.name, err, hop.Exit, hop.Reason, hop.To, c.exit, c.reason, c.receiver)
		}
	}
	for _, c := range []struct{ from, want string }{{cable1.ID, "no gateway"}, {yard1.ID, "is no endpoint"}} {
		hop, err := tracer.Trace(t.Context(), tracing.Query{From: c.from, To: "203.0.113.9", Protocol: "tcp", Port: 80})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to an address outside: %v, %s %s, want Invalid and %q", c.from, err, hop.Exit, hop.To, c.want)
		}
	}
}

// floodSet returns the flood set of a bridged network with these members.
func floodSet(n pipeline.Network, members ...pipeline.Endpoint) pipeline.FloodSet {
	s := pipeline.FloodSet{Network: n.ID, Encap: n.Encap, VNI: n.VNI, Tag: n.Tag}
	for _, e := range members {
		s.Members = append(s.Members, e.MAC)
	}
	return s
}
