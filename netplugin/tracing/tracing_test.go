package tracing_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netmaster/mastercfg"
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
	noSSH      = pipeline.Rule{ID: "blue:db:blue:p1:1:inRx", Priority: 10, SrcGroup: 7, DstGroup: 8, Protocol: 6, DstPort: 22}
)

func endpointOf(n pipeline.Network, number byte, group uint16, local bool) pipeline.Endpoint {
	e := pipeline.Endpoint{ID: fmt.Sprintf("%s-%d", n.ID, number), Network: n.ID, Tenant: n.Tenant, VRF: n.VRF, VNI: n.VNI, Tag: n.Tag, Group: group,
		IPv4: netip.AddrFrom4([4]byte{10, byte(n.Tag), 0, number}), MAC: [6]byte{2, 2, 10, byte(n.Tag), 0, number}, Local: local}
	if n.Subnet6.IsValid() {
		e.IPv6 = netip.AddrFrom16([16]byte{0xfd, 0, 0, byte(n.Tag), 15: number})
	}
	if !local {
		e.VTEP = there
	}
	return e
}

// startTracer programs a switch with objects and returns who asks it.
func startTracer(t *testing.T, objects ...pipeline.Object) tracing.Tracer {
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
	driver, err := ovsd.New(ovsd.Config{RunDir: sw.RunDir, VTEP: here, NetNS: &ns})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	patience, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	for _, object := range objects {
		if e, ok := object.(pipeline.Endpoint); ok && e.Local {
			if _, err := driver.AddPort(patience, e.Encap, e.ID, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	driver.Update(drivers.Change{Replace: true, Set: objects})
	if err := driver.Sync(patience); err != nil {
		t.Fatal(err)
	}
	inspect := func() agent.Inspection {
		return agent.Inspection{HostLabel: "node1", VTEP: here, Peers: map[string]netip.Addr{"node2": there}, Objects: objects}
	}
	return tracing.Tracer{Inspect: inspect, Switches: []tracing.Switch{driver}}
}

// The stories of testdata/traces.txt are what a real switch says; "-update" writes them anew.
func TestItIsToldWhatBecomesOfAPacket(t *testing.T) {
	tracer := startTracer(t, web, db, web1, web2, web9, db1, noSSH)
	var out strings.Builder
	for _, story := range []struct {
		name, exit, reason string
		query              tracing.Query
	}{
		{"a neighbour", mastercfg.ExitDelivered, "", tracing.Query{From: web1.ID, To: web2.ID, Protocol: "tcp", Port: 80}},
		{"by the gateway", mastercfg.ExitDelivered, "", tracing.Query{From: web1.ID, To: "10.2.0.1", Protocol: "tcp", Port: 80}},
		{"denied by a rule", mastercfg.ExitDropped, "denied", tracing.Query{From: web1.ID, To: db1.ID, Protocol: "tcp", Port: 22}},
		{"a forged sender", mastercfg.ExitDropped, "forged", tracing.Query{From: web1.ID, To: web2.ID, Protocol: "udp", Port: 53, Source: web2.IPv4}},
		{"what DHCP servers send", mastercfg.ExitDropped, "server", tracing.Query{From: web1.ID, To: web2.ID, Protocol: "udp", Port: 68}},
		{"nobody has the address", mastercfg.ExitDropped, "no neighbour", tracing.Query{From: web1.ID, To: "10.1.0.77", Protocol: "tcp", Port: 80}},
		{"nobody has the address of IPv6", mastercfg.ExitDropped, "no neighbour", tracing.Query{From: web1.ID, To: "fd00:1::77", Protocol: "tcp", Port: 80}},
		{"nobody has it anywhere", mastercfg.ExitDropped, "no route", tracing.Query{From: web1.ID, To: "203.0.113.9", Protocol: "icmp"}},
		{"a ping for the gateway", mastercfg.ExitAnswered, "", tracing.Query{From: web1.ID, To: "10.1.0.254", Protocol: "icmp"}},
		{"out of the tunnel", mastercfg.ExitDelivered, "", tracing.Query{From: web9.ID, To: web1.ID, Protocol: "sctp", Port: 80}},
		{"out of the tunnel, and denied here, too", mastercfg.ExitDropped, "denied", tracing.Query{From: web9.ID, To: db1.ID, Protocol: "tcp", Port: 22}},
		{"out of the tunnel, from somebody else", mastercfg.ExitDropped, "other node", tracing.Query{From: web9.ID, To: web1.ID, Protocol: "tcp", Port: 80, Source: web2.IPv4}},
	} {
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
		fmt.Fprintf(&out, "= %s\n\n", strings.TrimRight(strings.Join([]string{hop.Exit, hop.To, hop.Reason, hop.Table, hop.Of, hop.Note}, " | "), " |"))
	}
	const file = "testdata/traces.txt"
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
		{tracing.Query{From: db1.ID, To: "fd00:1::1", Protocol: "tcp", Port: 80}, fault.Invalid},
		{tracing.Query{From: web9.ID, To: "10.1.0.78", Protocol: "tcp", Port: 80}, fault.NotFound},
	} {
		if hop, err := tracer.Trace(t.Context(), wrong.query); !fault.Is(err, wrong.kind) {
			t.Errorf("%+v: %v, %+v", wrong.query, err, hop)
		}
	}
}
