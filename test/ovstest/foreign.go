package ovstest

import "fmt"

// foreignActions has every action of ovs-actions(7), of which this project writes few.
var foreignActions = []string{
	"output:3", "output:reg0[1..16]", "output(port=3,max_len=100)", "output(port=reg0,max_len=100)", "NORMAL", "FLOOD", "ALL", "LOCAL", "IN_PORT",
	"controller", "controller:100", "controller(reason=invalid_ttl,max_len=10,id=5)", "controller(userdata=01.02.03,pause)", "controller(meter_id=77)",
	"enqueue(3,7)", "set_queue:7", "pop_queue",
	"bundle(eth_src,50,hrw,ofport,members:4,8)", "bundle_load(symmetric_l4,60,hrw,ofport,reg1[],members:2,3)", "bundle(nw_src,0,active_backup,ofport,members:1)",
	"group:77", "strip_vlan", "pop_vlan", "push_vlan:0x88a8", "push_mpls:0x8847", "push_mpls:0x8848",
	"set_field:02:00:00:00:00:01->eth_dst", "set_field:1/1->reg0", "load:1->reg0[3..5]", "move:reg0[0..15]->reg1[16..31]", "set_field:5->tun_id",
	"set_field:0x20->tun_flags", "set_field:1->tun_gbp_id", "set_field:0x1234->tun_metadata0", "delete_field:tun_metadata0", "set_field:1->xxreg0", "set_field:1->xreg0", "set_field:1->metadata",
	"set_field:7->skb_priority", "set_field:1->pkt_mark", "set_field:fd00::1->tun_ipv6_dst",
	"mod_dl_src:02:00:00:00:00:01", "mod_dl_dst:02:00:00:00:00:02", "mod_vlan_vid:5", "mod_vlan_pcp:3", "set_vlan_vid:5",
	"set_tunnel:5", "set_tunnel64:0x100000000",
	"ct(zone=5)", "ct(commit,force,zone=reg0[0..15],exec(set_field:1->ct_mark,load:2->ct_label[0..7]))", "ct(table=5,zone=NXM_NX_REG1[0..15])", "ct_clear",
	"check_pkt_larger(1500)->reg0[0]", "conjunction(7,1/2)", "note:01.02.03.04", "exit", "clone(exit,note:05)",
	"learn(table=10,idle_timeout=10,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
	"resubmit:5", "resubmit(,6)", "resubmit(5,6)", "resubmit(,6,ct)", "push:reg0[0..15]", "pop:reg1[]",
	"sample(probability=100,collector_set_id=1,obs_domain_id=2,obs_point_id=3)", "sample(probability=100,collector_set_id=1,obs_domain_id=2,obs_point_id=3,sampling_port=3,egress)",
	"multipath(eth_src,50,modulo_n,4,0,reg0[])", "encap(nsh(md_type=1))", "encap(nsh(md_type=2,tlv(0x1000,10,0x12345678)))", "encap(ethernet)", "encap(mpls)", "decap()",
	"meter:77,output:3", "write_actions(output:3,set_field:1->reg0)", "write_metadata:0x5/0xff", "clear_actions", "goto_table:7",
}

// foreignIP has the actions that need an IP packet, with their protocol.
var foreignIP = []string{
	"ip actions=mod_nw_src:10.0.0.1", "ip actions=mod_nw_dst:10.0.0.1", "ip actions=mod_nw_tos:16", "ip actions=mod_nw_ecn:2", "ip actions=mod_nw_ttl:5",
	"tcp actions=mod_tp_src:80", "udp actions=mod_tp_dst:80", "sctp actions=mod_tp_dst:80", "ip actions=dec_ttl", "ip actions=dec_ttl(1,2,3)",
	"tcp actions=fin_timeout(idle_timeout=10,hard_timeout=20)", "ip actions=ct(commit,nat(src=10.0.0.1-10.0.0.9:1-99,hash,persistent))",
	"ipv6 actions=ct(commit,zone=1,nat(dst=[fd00::1]:80))", "ip actions=ct(commit,alg=ftp)", "tcp actions=ct(commit,alg=tftp)", "ip actions=ct(nat)",
	"mpls actions=pop_mpls:0x0800", "mpls actions=set_mpls_label:5", "mpls actions=set_mpls_tc:5", "mpls actions=set_mpls_ttl:5", "mpls actions=dec_mpls_ttl", "mplsm actions=push_mpls:0x8848",
	"arp actions=set_field:2->arp_op", "icmp actions=set_field:0->icmp_type", "icmp6,icmp_type=136 actions=set_field:1->nd_reserved",
	"packet_type=(1,0x894f) actions=dec_nsh_ttl", "packet_type=(1,0x894f) actions=set_field:1->nsh_spi", "packet_type=(1,0x894f) actions=decap(packet_type(ns=0,type=0))",
}

// foreignMatches has every field of ovs-fields(7) that a flow can match on.
var foreignMatches = []string{
	"tun_id=5", "tun_id=5/7", "tun_src=10.0.0.1", "tun_dst=10.0.0.0/8", "tun_ipv6_src=fd00::1", "tun_ipv6_dst=fd00::/64", "tun_gbp_id=1", "tun_gbp_flags=1",
	"tun_erspan_ver=1", "tun_erspan_idx=1", "tun_erspan_dir=1", "tun_erspan_hwid=1", "tun_gtpu_flags=1", "tun_gtpu_msgtype=1", "tun_flags=+oam", "tun_metadata0=0x1234", "tun_metadata0",
	"tun_metadata0=1/3", "metadata=1", "metadata=1/3", "in_port=5", "in_port=LOCAL", "conj_id=5", "packet_type=(1,0x894f)", "packet_type=(0,0)",
	"pkt_mark=5", "pkt_mark=1/3", "skb_priority=1", "reg0=1", "reg15=1/3", "xreg0=1", "xxreg0=1", "xxreg3=1/1",
	"ct_state=+trk+est-new", "ct_state=0x20/0x20", "ct_zone=5", "ct_mark=5/7", "ct_label=5", "ip,ct_state=+trk+new,ct_nw_src=10.0.0.1", "ip,ct_state=+trk+new,ct_nw_dst=10.0.0.0/8",
	"ipv6,ct_state=+trk+new,ct_ipv6_src=fd00::1", "ipv6,ct_state=+trk+new,ct_ipv6_dst=fd00::/16", "ip,ct_state=+trk+new,ct_nw_proto=6,ct_tp_src=5,ct_tp_dst=7",
	"dl_src=02:00:00:00:00:01", "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", "dl_type=0x1234", "vlan_tci=0x1005/0x1fff", "dl_vlan=5", "dl_vlan=5,dl_vlan_pcp=3", "vlan_tci=0", "vlan_vid=0x1000/0x1000",
	"mpls,mpls_label=5", "mpls,mpls_tc=5", "mpls,mpls_bos=1", "mpls,mpls_ttl=5", "mplsm,mpls_label=6",
	"ip,nw_src=10.0.0.1", "ip,nw_dst=10.0.0.0/255.0.255.0", "ipv6,ipv6_src=fd00::1", "ipv6,ipv6_dst=fd00::/64", "ipv6,ipv6_label=5", "ipv6,ipv6_label=5/7", "ip,nw_proto=50", "ip,nw_ttl=5", "ip,nw_frag=first", "ip,nw_frag=not_later", "ip,nw_tos=16", "ipv6,nw_ecn=1",
	"arp,arp_op=1", "arp,arp_spa=10.0.0.1", "arp,arp_tpa=10.0.0.0/8", "arp,arp_sha=02:00:00:00:00:01", "arp,arp_tha=02:00:00:00:00:01", "rarp,arp_op=3",
	"packet_type=(1,0x894f),nsh_flags=1", "packet_type=(1,0x894f),nsh_ttl=1", "packet_type=(1,0x894f),nsh_mdtype=1", "packet_type=(1,0x894f),nsh_np=1", "packet_type=(1,0x894f),nsh_spi=1", "packet_type=(1,0x894f),nsh_si=1", "packet_type=(1,0x894f),nsh_mdtype=1,nsh_c1=1,nsh_c2=1,nsh_c3=1,nsh_c4=1",
	"tcp,tp_src=80", "tcp,tp_dst=80/0xfff0", "tcp,tcp_flags=+syn-ack", "udp,tp_src=80", "udp6,tp_dst=80", "sctp,tp_src=80", "sctp6,tp_dst=80",
	"icmp,icmp_type=8", "icmp,icmp_code=1", "icmp6,icmp_type=128", "icmp6,icmp_code=1", "icmp6,icmp_type=135,nd_target=fd00::1", "icmp6,icmp_type=135,nd_sll=02:00:00:00:00:01", "icmp6,icmp_type=136,nd_tll=02:00:00:00:00:01", "icmp6,icmp_type=136,nd_reserved=1", "icmp6,icmp_type=136,nd_options_type=2",
}

// ForeignFlows returns flows that another program may write to a bridge with ovs-ofctl: one with each action and each
// field. They refer to group 77, meter 77 and the field tun_metadata0, which must exist (AddForeignThings), and
// have neither cookie nor table nor priority.
func ForeignFlows() []string {
	var flows []string
	for _, a := range foreignActions {
		flows = append(flows, "actions="+a)
	}
	flows = append(flows, foreignIP...)
	for _, m := range foreignMatches {
		flows = append(flows, m+" actions=drop")
	}
	return append(flows, "idle_timeout=100,hard_timeout=200,send_flow_rem,reset_counts,no_packet_counts,no_byte_counts,actions=output:3")
}

// AddForeignThings creates what ForeignFlows refer to.
func (s *Switch) AddForeignThings(bridge string) {
	s.t.Helper()
	s.Ofctl("add-tlv-map", bridge, "{class=0x102,type=1,len=4}->tun_metadata0")
	s.Ofctl("add-group", bridge, "group_id=77,type=indirect,bucket=output:1")
	s.Ofctl("add-meter", bridge, "meter=77,kbps,band=type=drop,rate=1000")
}

// AddForeign writes a flow; head is its cookie, table and priority. This version of the switch may refuse it.
func (s *Switch) AddForeign(bridge, head, flow string) error {
	flow = fmt.Sprintf("%s,%s", head, flow)
	_, err := s.Try("ovs-ofctl", "-O", "OpenFlow13", "add-flow", s.Bridge(bridge), flow)
	if err == nil {
		return nil
	}
	// Older versions of OpenFlow have actions that 1.3 lacks.
	_, err = s.Try("ovs-ofctl", "-O", "OpenFlow10", "add-flow", s.Bridge(bridge), flow)
	return err
}
