package openflow_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	of "github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

var (
	anycast = [6]byte{0, 0, 0x11, 0x11, 0x11, 0x11}
	all32   = ^uint32(0)
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func host(s string) netip.Prefix   { return inet.Host(netip.MustParseAddr(s)) }

func matchOf(protocol of.Match, more ...of.FieldMatch) of.Match {
	return append(slices.Clone(protocol), more...)
}

var (
	arp   = of.Match{of.EthType(of.EthTypeARP)}
	ip4   = of.Match{of.EthType(of.EthTypeIPv4)}
	ip6   = of.Match{of.EthType(of.EthTypeIPv6)}
	tcp4  = matchOf(ip4, of.IPProto(of.ProtoTCP))
	udp4  = matchOf(ip4, of.IPProto(of.ProtoUDP))
	udp6  = matchOf(ip6, of.IPProto(of.ProtoUDP))
	icmp4 = matchOf(ip4, of.IPProto(of.ProtoICMP))
	ns    = matchOf(ip6, of.IPProto(of.ProtoICMPv6), of.ICMPv6Type(of.NDSolicit))
	na    = matchOf(ip6, of.IPProto(of.ProtoICMPv6), of.ICMPv6Type(of.NDAdvert))
)

// wideFlows use each constructor at least once, the way a pipeline would, with
// what ovs-ofctl prints for each.
var wideFlows = []struct {
	flow of.Flow
	text string
}{
	{
		of.Flow{Goto: 1},
		"priority=0 actions=goto_table:1",
	},
	{
		of.Flow{Table: 1, Priority: of.DefaultPriority, Cookie: 0xc000000100000007},
		"cookie=0xc000000100000007, table=1, actions=drop",
	},
	{
		of.Flow{Priority: 100, Match: of.Match{of.InPort(5), of.EthSrc(anycast), of.VLANNone()}, Metadata: 0x100, MetadataMask: 0xff00, Goto: 2},
		"priority=100,in_port=5,vlan_tci=0x0000/0x1fff,dl_src=00:00:11:11:11:11 actions=write_metadata:0x100/0xff00,goto_table:2",
	},
	{
		of.Flow{Table: 2, Priority: 100, Match: of.Match{of.TunnelID(10001), of.TunSrc(host("10.1.1.2")), of.TunDst(prefix("10.1.0.0/16")), of.InPort(of.PortLocal)}, Actions: []of.Action{of.LoadReg(0, 4, 4, 3)}, Goto: 3},
		"table=2, priority=100,tun_id=0x2711,tun_src=10.1.1.2,tun_dst=10.1.0.0/16,in_port=LOCAL actions=load:0x3->NXM_NX_REG0[4..7],goto_table:3",
	},
	{
		of.Flow{Table: 2, Priority: 101, Match: of.Match{of.TunSrc(host("fd00::1")), of.TunDst(prefix("fd00::/64"))}, Actions: []of.Action{of.SetField{FieldMatch: of.TunDst(host("fd00::2"))}, of.Output{Port: 1}}},
		"table=2, priority=101,tun_ipv6_src=fd00::1,tun_ipv6_dst=fd00::/64 actions=set_field:fd00::2->tun_ipv6_dst,output:1",
	},
	{ // the ARP responder
		of.Flow{
			Table: 3, Priority: 100,
			Match: matchOf(arp, of.ARPOp(1), of.ARPSpa(prefix("10.1.1.0/24")), of.ARPTpa(host("10.1.1.254")), of.ARPSha([6]byte{2}), macOf(of.FieldARPTha, [6]byte{})),
			Actions: []of.Action{
				of.MoveAll(of.FieldEthSrc, of.FieldEthDst),
				of.SetField{FieldMatch: of.EthSrc(anycast)},
				of.SetField{FieldMatch: of.ARPOp(2)},
				of.MoveAll(of.FieldARPSha, of.FieldARPTha),
				of.MoveAll(of.FieldARPSpa, of.FieldARPTpa),
				of.SetField{FieldMatch: of.ARPSha(anycast)},
				of.SetField{FieldMatch: of.ARPSpa(host("10.1.1.254"))},
				of.Output{Port: of.PortInPort},
			},
		},
		"table=3, priority=100,arp,arp_spa=10.1.1.0/24,arp_tpa=10.1.1.254,arp_op=1,arp_sha=02:00:00:00:00:00,arp_tha=00:00:00:00:00:00 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:00:00:11:11:11:11->eth_src,set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:00:00:11:11:11:11->arp_sha,set_field:10.1.1.254->arp_spa,IN_PORT",
	},
	{ // the ND responder
		of.Flow{
			Table: 3, Priority: 101,
			Match: matchOf(ns, of.ICMPv6Code(0), of.NDTarget(netip.MustParseAddr("fd00::1")), macOf(of.FieldNDSLL, [6]byte{2})),
			Actions: []of.Action{
				of.SetField{FieldMatch: of.ICMPv6Type(of.NDAdvert)},
				of.SetField{FieldMatch: of.NDOptionsType(2)},
				of.SetField{FieldMatch: of.NDReserved(0x60000000)},
				of.SetField{FieldMatch: macOf(of.FieldNDSLL, anycast)},
			},
		},
		"table=3, priority=101,icmp6,icmp_type=135,icmp_code=0,nd_target=fd00::1,nd_sll=02:00:00:00:00:00 actions=set_field:136->icmpv6_type,set_field:2->nd_options_type,set_field:1610612736->nd_reserved,set_field:00:00:11:11:11:11->nd_sll",
	},
	{
		of.Flow{Table: 3, Priority: 102, Match: matchOf(na, macOf(of.FieldNDTLL, [6]byte{2}), of.NDReserved(5), of.NDOptionsType(2))},
		"table=3, priority=102,icmp6,icmp_type=136,nd_tll=02:00:00:00:00:00,nd_reserved=5,nd_options_type=2 actions=drop",
	},
	{ // connection tracking
		of.Flow{Table: 4, Priority: 10, Match: matchOf(ip4, of.CTState(0, of.CTTrk)), Actions: []of.Action{of.CT{ZoneField: of.Subfield{Field: of.FieldReg(5), Bits: 16}, Recirculate: true, Table: 5}}},
		"table=4, priority=10,ct_state=-trk,ip actions=ct(table=5,zone=NXM_NX_REG5[0..15])",
	},
	{
		of.Flow{Table: 5, Priority: 10, Match: matchOf(tcp4, of.CTState(of.CTNew|of.CTTrk, of.CTNew|of.CTTrk|of.CTInv), of.TCPDst(80), of.TCPFlags(of.TCPSyn, of.TCPSyn|of.TCPAck)), Actions: []of.Action{
			of.CT{Commit: true, Zone: 7, Actions: []of.Action{
				of.NAT{Kind: of.NATDestination, MinIP: netip.MustParseAddr("10.1.1.1"), MinPort: 8080},
				of.SetField{FieldMatch: of.CTMark(1, all32)},
				of.SetField{FieldMatch: of.CTLabel(of.Value{Hi: 1}, of.Value{Hi: 1})},
			}},
		}},
		"table=5, priority=10,ct_state=+new-inv+trk,tcp,tp_dst=80,tcp_flags=+syn-ack actions=ct(commit,zone=7,nat(dst=10.1.1.1:8080),exec(set_field:0x1->ct_mark,set_field:0x10000000000000000/0x10000000000000000->ct_label))",
	},
	{
		of.Flow{Table: 5, Priority: 11, Match: matchOf(ip4, of.CTState(of.CTEst|of.CTTrk, of.CTEst|of.CTTrk), of.CTMark(1, 3), of.CTZone(7), of.CTLabel(of.Value{Lo: 1}, of.Value{Lo: 0xff}), of.CTNwSrc(host("10.0.0.1")), of.CTNwDst(prefix("10.0.0.0/8")), of.CTNwProto(6), of.CTTpSrc(1), of.CTTpDst(2)), Actions: []of.Action{of.CTClear{}, of.CT{Actions: []of.Action{of.NAT{}}}}},
		"table=5, priority=11,ct_state=+est+trk,ct_zone=7,ct_mark=0x1/0x3,ct_label=0x1/0xff,ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.0/8,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=2,ip actions=ct_clear,ct(nat)",
	},
	{ // policy by conjunction
		of.Flow{Table: 6, Priority: 50, Match: matchOf(tcp4, of.TCPDstMasked(0x1000, 0xf000), of.TCPSrc(5)), Actions: []of.Action{of.Conjunction{ID: 9, Clause: 1, Clauses: 3}, of.Conjunction{ID: 10, Clause: 2, Clauses: 2}}},
		"table=6, priority=50,tcp,tp_src=5,tp_dst=0x1000/0xf000 actions=conjunction(9,1/3),conjunction(10,2/2)",
	},
	{
		of.Flow{Table: 6, Priority: 50, Match: of.Match{of.ConjID(9), of.Reg(1, 100, all32), of.Reg(2, 0x10, 0xf0)}, Meter: 1, Actions: []of.Action{of.Resubmit{Table: 9}, of.OutputGroup{ID: 1}}},
		"table=6, priority=50,conj_id=9,reg1=0x64,reg2=0x10/0xf0 actions=meter:1,resubmit(,9),group:1",
	},
	{
		of.Flow{Table: 7, Priority: 1, Match: of.Match{of.VLANVID(10), of.VLANPCP(3), of.EthDstMasked([6]byte{1}, [6]byte{1})}, Actions: []of.Action{of.PopVLAN{}, of.PushVLAN{}, of.SetField{FieldMatch: of.VLANVID(20)}, of.Output{Port: of.PortNormal}}},
		"table=7, priority=1,dl_vlan=10,dl_vlan_pcp=3,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=pop_vlan,push_vlan:0x8100,set_field:4116->vlan_vid,NORMAL",
	},
	{
		of.Flow{Table: 7, Priority: 2, Match: of.Match{of.VLANAny(), of.EthSrcMasked([6]byte{1}, [6]byte{1}), of.EthDst([6]byte{2})}, IdleTimeout: 3000, HardTimeout: 6000, Flags: of.FlowSendRemoved},
		"table=7, idle_timeout=3000, hard_timeout=6000, send_flow_rem priority=2,vlan_tci=0x1000/0x1000,dl_src=01:00:00:00:00:00/01:00:00:00:00:00,dl_dst=02:00:00:00:00:00 actions=drop",
	},
	{
		of.Flow{Table: 8, Priority: 1, Match: matchOf(udp4, of.UDPSrc(67), of.UDPDstMasked(0x40, 0xfff0)), Actions: []of.Action{of.ToController(), of.Controller{MaxLen: of.NoBuffer, Reason: of.ReasonAction, UserData: []byte{1, 2}}, of.CheckLarger{Size: 1464, Dst: of.Subfield{Field: of.FieldReg(0), Ofs: 6, Bits: 1}}}},
		"table=8, priority=1,udp,tp_src=67,tp_dst=0x40/0xfff0 actions=CONTROLLER:65535,controller(userdata=01.02),check_pkt_larger(1464)->NXM_NX_REG0[6]",
	},
	{
		of.Flow{Table: 8, Priority: 2, Match: matchOf(udp6, of.UDPDst(53), of.Masked(of.FieldUDPSrc, of.Value{Lo: 1}, of.Value{Lo: 1}), of.IPv6Src(prefix("fe80::/64")), of.IPv6Dst(host("ff02::1")), of.Exact(of.FieldIPv6Label, of.Value{Lo: 5})), Actions: []of.Action{of.Clone{Actions: []of.Action{of.DecTTL{}, of.Output{Port: 4}}}}},
		"table=8, priority=2,udp6,ipv6_src=fe80::/64,ipv6_dst=ff02::1,ipv6_label=0x00005,tp_src=0x1/0x1,tp_dst=53 actions=clone(dec_ttl,output:4)",
	},
	{
		of.Flow{Table: 8, Priority: 3, Match: matchOf(icmp4, of.ICMPType(8), of.Exact(of.FieldICMPCode, of.Value{Lo: 0}), of.IPv4Src(prefix("10.0.0.0/24")), of.IPv4Dst(host("10.0.0.1")), of.IPDSCP(10), of.Exact(of.FieldIPECN, of.Value{Lo: 1}), of.IPTTL(64)), Actions: []of.Action{of.SetTTL{TTL: 64}, of.SetQueue{ID: 3}, of.OutputReg{Src: of.Whole(of.FieldReg(3))}}},
		"table=8, priority=3,icmp,nw_src=10.0.0.0/24,nw_dst=10.0.0.1,nw_tos=40,nw_ecn=1,nw_ttl=64,icmp_type=8,icmp_code=0 actions=mod_nw_ttl:64,set_queue:3,output:NXM_NX_REG3[]",
	},
	{
		of.Flow{Table: 8, Priority: 4, Match: matchOf(ip4, of.IPProto(of.ProtoSCTP), of.Exact(of.FieldSCTPSrc, of.Value{Lo: 1}), of.Exact(of.FieldSCTPDst, of.Value{Lo: 2}), of.PktMark(1, 1), of.Metadata(5, 0xff)), Actions: []of.Action{of.Multipath{Fields: of.HashSymmetricL3L4, Links: 4, Dst: of.Subfield{Field: of.FieldReg(0), Bits: 8}}}},
		"table=8, priority=4,pkt_mark=0x1/0x1,sctp,metadata=0x5/0xff,tp_src=1,tp_dst=2 actions=multipath(symmetric_l3l4,0,modulo_n,4,0,NXM_NX_REG0[0..7])",
	},
	{
		of.Flow{Table: 9, Priority: 1, Match: of.Match{of.XReg(1, 5, ^uint64(0)), of.EthType(0x88cc)}, Actions: []of.Action{of.SetField{FieldMatch: of.XReg(2, 1<<32, ^uint64(0))}, of.Load{Field: of.FieldInPort16, Bits: 16}, of.Output{Port: 3}}, WriteActions: []of.Action{of.Output{Port: 1}}, Goto: 10},
		"table=9, priority=1,reg2=0,reg3=0x5,dl_type=0x88cc actions=set_field:0x100000000->xreg2,load:0->NXM_OF_IN_PORT[],output:3,write_actions(output:1),goto_table:10",
	},
	{
		of.Flow{Table: 9, Priority: 3, Match: matchOf(ip4), Actions: []of.Action{of.Learn{IdleTimeout: 10800, Priority: 100, Cookie: 0xc106aabbccddeeff, Delete: true, Table: 32, Limit: 65535, Specs: []of.LearnSpec{
			{Src: of.Whole(of.FieldReg(12)), Dst: of.Whole(of.FieldReg(12))},
			{Value: 0x800, Dst: of.Whole(of.FieldEthType)},
			{Src: of.Whole(of.FieldIPv4Src), Dst: of.Whole(of.FieldIPv4Src)},
			{Src: of.Whole(of.FieldReg(13)), Dst: of.Whole(of.FieldReg(13)), Load: true},
			{Value: 0x0a010101, Dst: of.Whole(of.FieldReg(14)), Load: true},
			{Dst: of.Whole(of.FieldReg(15)), Load: true},
		}}}},
		"table=9, priority=3,ip actions=learn(table=32,idle_timeout=10800,priority=100,delete_learned,cookie=0xc106aabbccddeeff,limit=65535,NXM_NX_REG12[],eth_type=0x800,NXM_OF_IP_SRC[],load:NXM_NX_REG13[]->NXM_NX_REG13[],load:0xa010101->NXM_NX_REG14[],load:0->NXM_NX_REG15[])",
	},
	{
		of.Flow{Table: 9, Priority: 2, ClearActions: true, Actions: []of.Action{of.SetField{FieldMatch: of.Reg(0, 1, 0xff)}}},
		"table=9, priority=2 actions=set_field:0x1/0xff->reg0,clear_actions",
	},
}

var wideGroups = []of.Group{
	{ID: 1, Type: of.GroupAll, Buckets: []of.Bucket{
		{Actions: []of.Action{of.SetField{FieldMatch: of.TunnelID(5)}, of.SetField{FieldMatch: of.TunDst(host("10.1.1.2"))}, of.Output{Port: 1}}},
		{Actions: []of.Action{of.Output{Port: 2}}},
	}},
	{ID: 2, Type: of.GroupSelect, Buckets: []of.Bucket{
		{Weight: 10, Actions: []of.Action{of.CT{Commit: true, Actions: []of.Action{of.NAT{Kind: of.NATDestination, MinIP: netip.MustParseAddr("10.1.1.1"), MinPort: 80}}}}},
		{Weight: 1, Actions: []of.Action{of.Output{Port: 2}}},
	}},
	{ID: 3, Type: of.GroupIndirect, Buckets: []of.Bucket{{Actions: []of.Action{of.OutputGroup{ID: 2}}}}},
	{ID: 4, Type: of.GroupFastFailover, Buckets: []of.Bucket{
		{WatchPort: 1, Actions: []of.Action{of.Output{Port: 1}}},
		{WatchGroup: 1, Actions: []of.Action{of.Output{Port: 2}}},
	}},
	{ID: 5, Type: of.GroupAll},
}

var wideMeters = []of.Meter{
	{ID: 1, Flags: of.MeterKbps | of.MeterBurst | of.MeterStatistics, Bands: []of.MeterBand{{Rate: 10485, Burst: 8000}}},
	{ID: 2, Flags: of.MeterPktps, Bands: []of.MeterBand{{Rate: 100}}},
}

// install puts all of the above into the switch.
func install(t *testing.T, c *of.Conn) {
	t.Helper()
	var meters, bundle []of.Message
	for _, m := range wideMeters {
		meters = append(meters, of.MeterMod{Meter: m})
	}
	for _, g := range wideGroups {
		bundle = append(bundle, of.GroupMod{Group: g})
	}
	for _, f := range wideFlows {
		bundle = append(bundle, of.FlowMod{Flow: f.flow})
	}
	if err := c.Send(testContext(t), meters...); err != nil {
		t.Fatal(err)
	}
	if err := c.Bundle(testContext(t), bundle...); err != nil {
		t.Fatal(err)
	}
}

func TestFlowsArePrintedAsOfctlPrintsThem(t *testing.T) {
	s, c := bridge(t, of.Options{})
	install(t, c)
	theirs := make(map[string]bool)
	for _, line := range dump(s, "flows") {
		theirs[line] = true
	}
	for _, f := range wideFlows {
		if got := f.flow.String(); got != f.text {
			t.Errorf("we print\n     %s\nwant %s", got, f.text)
		}
		if !theirs[f.text] {
			t.Errorf("ovs-ofctl does not print\n%s", f.text)
		}
		delete(theirs, f.text)
	}
	for line := range theirs {
		t.Errorf("ovs-ofctl prints besides\n%s", line)
	}
}

func TestFlowsAreReadAsTheyWereWritten(t *testing.T) {
	_, c := bridge(t, of.Options{})
	install(t, c)
	flows, _ := texts(t, c)
	there := byKey(flows)
	if len(there) != len(wideFlows) {
		t.Errorf("%d of %d flows", len(there), len(wideFlows))
	}
	for _, want := range wideFlows {
		got, ok := there[want.flow.MatchKey()]
		want.flow.Match = want.flow.Match.Canonical()
		if !ok || !got.SameEffect(want.flow) {
			t.Errorf("got  %s\nwant %s", got, want.flow)
		}
		if slices.ContainsFunc(want.flow.Actions, changesShape) {
			continue // the same under another name
		}
		if !reflect.DeepEqual(got, want.flow) {
			t.Errorf("%s: values differ:\n%s", want.text, cmp.Diff(want.flow, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })))
		}
	}
}

// changesShape: a tag's default type is filled in by the switch.
func changesShape(a of.Action) bool {
	_, isPush := a.(of.PushVLAN)
	return isPush
}

func TestGroupsAndMetersAreReadAndPrintedAsOfctlDoes(t *testing.T) {
	s, c := bridge(t, of.Options{})
	install(t, c)

	groups, err := c.Groups(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(groups, func(a, b of.Group) int { return int(a.ID) - int(b.ID) })
	if !reflect.DeepEqual(groups, wideGroups) {
		t.Errorf("groups:\n%s", cmp.Diff(wideGroups, groups, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })))
	}
	var printed []string
	for _, g := range groups {
		printed = append(printed, g.String())
	}
	theirs := dump(s, "groups")
	slices.Sort(theirs)
	if diff := cmp.Diff(theirs, printed); diff != "" {
		t.Errorf("ovs-ofctl prints -, we print +:\n%s", diff)
	}

	meters, err := c.Meters(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(meters, func(a, b of.Meter) int { return int(a.ID) - int(b.ID) })
	if diff := cmp.Diff(wideMeters, meters); diff != "" {
		t.Errorf("meters:\n%s", diff)
	}
	printed = nil
	for _, m := range meters {
		printed = append(printed, strings.Split(m.String(), "\n")...)
	}
	if diff := cmp.Diff(dump(s, "meters"), printed); diff != "" {
		t.Errorf("ovs-ofctl prints -, we print +:\n%s", diff)
	}
}

func TestFiltersChooseFlows(t *testing.T) {
	_, c := bridge(t, of.Options{})
	install(t, c)
	for about, f := range map[string]struct {
		filter of.FlowFilter
		want   int
	}{
		"all":    {of.FlowFilter{}, len(wideFlows)},
		"table":  {of.FlowFilter{OneTable: true, Table: 0}, 2},
		"cookie": {of.FlowFilter{Cookie: 0xc0 << 56, CookieMask: 0xff << 56}, 1},
		"match":  {of.FlowFilter{Match: arp}, 1},
		"port":   {of.FlowFilter{OutPort: 4}, 1}, // inside a clone
		"group":  {of.FlowFilter{OutGroup: 1}, 1},
	} {
		flows, err := c.Flows(testContext(t), f.filter)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := c.Aggregate(testContext(t), f.filter)
		if err != nil {
			t.Fatal(err)
		}
		if len(flows) != f.want || int(sum.Flows) != f.want {
			t.Errorf("%s: %d flows, %d in sum, want %d", about, len(flows), sum.Flows, f.want)
		}
	}
}

func TestModifyAndDeleteTouchWhatTheySay(t *testing.T) {
	_, c := bridge(t, of.Options{})
	wide := of.Flow{Priority: 5, Match: ip4, Cookie: 0x10, Actions: []of.Action{of.Output{Port: 1}}}
	narrow := of.Flow{Priority: 6, Match: tcp4, Cookie: 0x20, Actions: []of.Action{of.Output{Port: 2}}}
	changed := wide
	changed.Actions = []of.Action{of.Output{Port: 3}}
	for _, step := range []struct {
		about   string
		message of.FlowMod
		want    string
	}{
		{"add", of.FlowMod{Flow: wide}, "output:1"},
		{"add narrow", of.FlowMod{Flow: narrow}, "output:1 output:2"},
		{"modify strictly", of.FlowMod{Command: of.FlowModifyStrict, Flow: changed}, "output:2 output:3"},
		{"modify", of.FlowMod{Command: of.FlowModify, Flow: wide}, "output:1 output:1"},
		{"delete by another cookie", of.FlowMod{Command: of.FlowDelete, CookieMask: 0xff, Flow: of.Flow{Table: of.TableAll, Cookie: 0x30}}, "output:1 output:1"},
		{"delete by cookie", of.FlowMod{Command: of.FlowDelete, CookieMask: 0xff, Flow: of.Flow{Table: of.TableAll, Cookie: 0x20}}, "output:1"},
		{"add narrow again", of.FlowMod{Flow: narrow}, "output:1 output:2"},
		{"delete strictly", of.FlowMod{Command: of.FlowDeleteStrict, Flow: wide}, "output:2"},
		{"delete by port", of.FlowMod{Command: of.FlowDelete, Flow: of.Flow{Table: of.TableAll}, OutPort: 1}, "output:2"},
		{"delete", of.FlowMod{Command: of.FlowDelete, Flow: of.Flow{Table: of.TableAll}, OutPort: 2}, ""},
	} {
		if err := c.Send(testContext(t), step.message); err != nil {
			t.Fatalf("%s: %v", step.about, err)
		}
		flows, _ := texts(t, c)
		var outputs []string
		for _, f := range flows {
			outputs = append(outputs, f.Actions[0].String())
		}
		slices.Sort(outputs)
		if got := strings.Join(outputs, " "); got != step.want {
			t.Errorf("%s: %q, want %q", step.about, got, step.want)
		}
	}
}

// macOf matches a field that has a MAC.
func macOf(f of.Field, a [6]byte) of.FieldMatch {
	var n uint64
	for _, b := range a {
		n = n<<8 | uint64(b)
	}
	return of.Exact(f, of.Value{Lo: n})
}

// Flows that are written again, with another cookie or other actions, keep their counters; only a flag resets
// them.
func TestAFlowThatIsWrittenAgainKeepsItsCounters(t *testing.T) {
	_, c := bridge(t, of.Options{})
	flow := of.Flow{Priority: 5, Cookie: 1}
	packet := of.PacketOut{InPort: of.PortLocal, Actions: []of.Action{of.Output{Port: of.PortTable}}, Data: make([]byte, 60)}
	again, reset := flow, flow
	again.Cookie, again.Goto = 2, 1
	reset.Flags = of.FlowResetCounts
	for i, step := range []struct {
		flow of.Flow
		want uint64
	}{{flow, 1}, {flow, 2}, {again, 3}, {reset, 1}} {
		if err := c.Bundle(testContext(t), of.FlowMod{Flow: step.flow}); err != nil {
			t.Fatal(err)
		}
		if err := c.PacketOut(testContext(t), packet); err != nil {
			t.Fatal(err)
		}
		flows, err := c.Flows(testContext(t), of.FlowFilter{})
		if err != nil || len(flows) != 1 || flows[0].Packets != step.want || flows[0].Cookie != step.flow.Cookie {
			t.Errorf("step %d: %+v, %v, want %d packets", i, flows, err, step.want)
		}
	}
}
