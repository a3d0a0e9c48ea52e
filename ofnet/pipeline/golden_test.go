package pipeline

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/ofnet/openflow"
)

var update = flag.Bool("update", false, "rewrite the golden files and the generated parts of docs/pipeline.md")

// goldenObjects are passed to every feature.
var goldenObjects = []Object{
	webBlue,
	here(web1),
	web2,
	knownOutside(limited(here(db1), Limits{Rate: 10485, Burst: 819, DSCP: 46})),
	lanBlue,
	here(lan1),
	lan2,
	FloodSet{Network: lanBlue.ID, VNI: lanBlue.VNI, Tag: lanBlue.Tag, Members: [][6]byte{lan1.MAC, lan3.MAC}, VTEPs: []netip.Addr{vtep2}},
	slowedDown(judged(limited(here(hub1), Limits{Rate: 10485}), 6, JudgesOut)),
	shop(web1.IPv4, web2.IPv4),
	Service{ID: "empty:blue", VRF: blueVRF, Tag: webBlue.Tag, Ports: []ServicePort{{Address: addr("10.1.1.201"), From: FromPods, Protocol: 6, Port: 80, Target: 80}}}.Numbered(noneTaken),
	Service{ID: "mall:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(web2), Affinity: 600, Ports: []ServicePort{
		{Address: vip6, From: FromPods, Protocol: 17, Port: 53, Target: 5353},
		{Address: beyond[0], From: FromPods | FromHost, Protocol: 6, Port: 80, Target: 8080},
		{Address: NodePorts(wayOut.Prefix), From: FromHost, Shared: true, Protocol: 6, Port: 30080, Target: 8080},
	}}.Numbered(noneTaken),
	kubeWeb(ServicePort{Address: external, From: FromPods, Protocol: 6, Port: 443, Silent: true, Sources: []netip.Prefix{prefix("192.0.2.0/24")}}),
	Service{ID: "names:blue", Overheard: true, VRF: blueVRF, Tag: webBlue.Tag, Ports: []ServicePort{
		{Address: shared[0], From: FromPods | FromTenants, Protocol: 17, Port: 53, Serving: []netip.AddrPort{netip.AddrPortFrom(web2.IPv4, 53)}},
	}}.Numbered(noneTaken),
	Service{ID: "yard:blue", Mode: BridgedProxy, VRF: blueVRF, Tag: lanBlue.Tag, Providers: []netip.Addr{lan1.IPv4},
		Ports: []ServicePort{{Address: addr("10.1.4.200"), From: FromPods, Protocol: 6, Port: 80, Target: 8080}}}.Numbered(noneTaken),
	ownedBy(wayOut),
	rule("groups-port", 10, func(r *Rule) {
		r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort, r.Allow = front, store, 6, 5432, true
	}),
	rule("back", 10, func(r *Rule) {
		r.SrcGroup, r.DstGroup, r.Protocol, r.SrcPort, r.Allow = store, front, 17, 53, true
	}),
	rule("new-connections", 1, func(r *Rule) { r.DstGroup, r.Protocol, r.TCPFlags = store, 6, "syn,!ack" }),
	rule("icmp", 100, func(r *Rule) { r.DstGroup, r.Protocol = store, 1 }),
	rule("igmp", 5, func(r *Rule) { r.Protocol = 2 }),
	rule("ipv4-networks", 20, func(r *Rule) { r.Src, r.Dst = prefix("10.1.1.7/24"), prefix("10.1.2.1/32") }),
	rule("ipv6-network", 20, func(r *Rule) { r.Src, r.Protocol = prefix("fd00:1::/64"), 1 }),
	rule("any-ipv4", 2, func(r *Rule) { r.Src = prefix("0.0.0.0/0") }),
	rule("everything", 1, func(*Rule) {}),
	rule("final-in", 30, func(r *Rule) {
		r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort, r.Allow, r.Ends = front, store, 6, 5432, true, EndsIn
	}),
	rule("final-out", 31, func(r *Rule) {
		r.SrcGroup, r.Dst, r.Dst6, r.Allow, r.Ends = front, prefix("10.1.2.0/24"), prefix("fd00:2::/64"), true, EndsOut
	}),
	rule("final-deny", 32, func(r *Rule) { r.DstGroup, r.Protocol, r.TCPFlags, r.Ends = store, 6, "syn,!ack", EndsIn }),
	rule("final-sctp", 33, func(r *Rule) {
		r.DstGroup, r.Src, r.Protocol, r.DstPort, r.Allow, r.Ends = store, prefix("10.1.1.0/24"), 132, 7, true, EndsIn
	}),
	rule("final-answers", 34, func(r *Rule) {
		r.SrcGroup, r.Protocol, r.SrcPort, r.Allow, r.Ends = store, 6, 5432, true, EndsOut
	}),
	judged(endpoint("gone", webBlue, 9, 0), 5, JudgesIn|IsolatesIn), // on another node: only its class is used
	Epoch{Number: 77},
	Peer{vtep2},
	TierRule{ID: "ns/any", Tier: PolicyTier, Out: true, Number: 1, Subjects: []uint16{5, 6}, AnyPeer: true},
	TierRule{ID: "ns/web", Tier: PolicyTier, Number: 2, Subjects: []uint16{5}, Peers: []uint16{6, 7}, Nets: []netip.Prefix{prefix("10.1.2.0/24"), prefix("::/0")},
		Ports: []PortRange{{6, 80, 81}, {17, 0, 65535}, {132, 7, 7}}},
	TierRule{ID: "ns/named", Tier: PolicyTier, Out: true, Number: 7, Subjects: []uint16{5}, Nets: []netip.Prefix{prefix("10.1.2.0/24")}, Serving: []uint16{6},
		Ports: []PortRange{{6, 8080, 8080}}},
	TierRule{ID: "cluster/names", Tier: FirstTier, Out: true, Rank: 29, Number: 9, Subjects: []uint16{5}, Nets: []netip.Prefix{prefix("203.0.113.1/32")},
		Begun: []netip.Prefix{prefix("203.0.113.2/32"), prefix("2001:db8::2/128")}},
	TierRule{ID: "cluster/deny", Tier: FirstTier, Rank: 26, Verdict: Deny, Number: 3, Subjects: []uint16{5}, Peers: []uint16{7}},
	TierRule{ID: "cluster/pass", Tier: FirstTier, Out: true, Rank: 27, Verdict: Pass, Number: 4, Subjects: []uint16{5}, Peers: []uint16{7}},
	TierRule{ID: "cluster/default", Tier: LastTier, Rank: 1, Verdict: Accept, Number: 5, Subjects: []uint16{5}, Peers: []uint16{7}},
	TierRule{ID: "cluster/pods", Tier: FirstTier, Rank: 28, Verdict: Deny, Number: 8, Subjects: []uint16{5}, AnyPod: true, Nets: []netip.Prefix{prefix("10.1.3.0/24")}},
	TierRule{ID: "cluster/closed", Tier: LastTier, Rank: 2, Verdict: Deny, Number: 10, Subjects: []uint16{5}, AnyPeer: true},
	TierRule{ID: "cluster/nobody", Tier: LastTier, Rank: 1, Verdict: Accept, Number: 6, Subjects: []uint16{5}},
}

// ownedBy returns an Outside with its node and the ranges of services set.
func ownedBy(o Outside) Outside {
	o.Own, o.Led = []netip.Addr{addr("192.0.2.1"), addr("2001:db8::1")}, []PortRange{{17, 30053, 30053}}
	o.Ranges = []netip.Prefix{prefix("10.96.0.0/16"), prefix("fd00:96::/112")}
	return o
}

// dump returns wanted flows as ovs-ofctl prints them, under a heading.
func dump(heading string, w Wants) string {
	var b strings.Builder
	for _, m := range w.Meters {
		fmt.Fprintln(&b, strings.ReplaceAll(m.String(), "\n", " "))
	}
	for _, g := range w.Groups {
		fmt.Fprintln(&b, g)
	}
	for _, f := range w.Flows {
		fmt.Fprintln(&b, f)
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("# %s\n", heading) + b.String()
}

// taken packs each flow, which finds those that the switch would refuse.
func taken(t *testing.T, w Wants) {
	t.Helper()
	for _, f := range w.Flows {
		if _, err := openflow.Pack(f); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestEveryFeatureWantsTheFlowsOfItsGoldenFile(t *testing.T) {
	all := node1()
	for _, f := range all.features {
		name := reflect.TypeOf(f).Name()
		t.Run(name, func(t *testing.T) {
			alone := &Pipeline{config: all.config, features: []any{f}}
			got := dump("base", alone.Base())
			taken(t, alone.Base())
			for _, o := range goldenObjects {
				taken(t, wantsOf(alone, o, portOf(o)))
				got += dump(fmt.Sprintf("%s %s", o.Key().Kind, o.Key().ID), wantsOf(alone, o, portOf(o)))
			}
			compareGolden(t, filepath.Join("testdata", name+".golden"), got)
		})
	}
}

func TestABridgeWithAnUplinkWantsTheFlowsOfItsGoldenFile(t *testing.T) {
	p := New(Config{UplinkPort: exampleTunnelPort})
	compareGolden(t, filepath.Join("testdata", "vlan.golden"), vlanText(p, vlanBlue, here(vl1), vl2))
	for _, o := range []Object{vlanTag(vlanBlue, 0), vlanTag(vlanBlue, MaxVLAN+1)} {
		if _, err := p.For(o, 0); err == nil || !strings.Contains(err.Error(), "1..4094") {
			t.Errorf("VLAN %d: %v", o.(Network).Tag, err)
		}
	}
}

// vlanText returns what a bridge with an uplink needs for objects, and for the flood set of the example.
func vlanText(p *Pipeline, objects ...Object) string {
	return wantsText(p, append(objects, FloodSet{Network: vlanBlue.ID, Encap: VLAN, Tag: vlanBlue.Tag, Members: [][6]byte{vl1.MAC, vl3.MAC}})...)
}

// wantsText returns what objects need in a switch, one after the other.
func wantsText(p *Pipeline, objects ...Object) (text string) {
	for _, o := range objects {
		text += dump(fmt.Sprintf("%s %s", o.Key().Kind, o.Key().ID), wantsOf(p, o, portOf(o)))
	}
	return text
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what the pipeline wants (-file +pipeline; -update rewrites it):\n%s", file, diff)
	}
}
