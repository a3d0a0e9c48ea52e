package master

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// line is a directional rule on one line.
func line(r mastercfg.CfgPolicyRule) string {
	name := r.RuleID[strings.LastIndex(r.RuleID, ":")+1:]
	return strings.TrimSpace(fmt.Sprintf("%s prio=%d group %d->%d addr %s->%s proto=%d port %d->%d %s %s", name, r.Priority,
		r.SrcEndpointGroup, r.DstEndpointGroup, r.SrcIPAddr, r.DstIPAddr, r.IPProtocol, r.SrcPort, r.DstPort, r.Action, r.TCPFlags))
}

func TestRulesExpandAsTheTableSays(t *testing.T) {
	const own = 7
	for _, c := range []struct {
		name string
		rule contivmodel.Rule
		peer Peer
		want []string
	}{
		{"in tcp with a port has a rule for replies", contivmodel.Rule{Direction: "in", Protocol: "tcp", Port: 80, Action: "allow"},
			Peer{Group: 9, From: "10.1.0.0/16"},
			[]string{"inRx prio=5 group 9->7 addr 10.1.0.0/16-> proto=6 port 0->80 allow",
				"inTx prio=5 group 7->9 addr ->10.1.0.0/16 proto=6 port 80->0 allow"}},
		{"in udp with a port and an own address", contivmodel.Rule{Direction: "in", Protocol: "udp", Port: 53, Action: "deny"},
			Peer{From: "10.1.0.1", To: "10.2.0.2"},
			[]string{"inRx prio=5 group 0->7 addr 10.1.0.1->10.2.0.2 proto=17 port 0->53 deny",
				"inTx prio=5 group 7->0 addr 10.2.0.2->10.1.0.1 proto=17 port 53->0 deny"}},
		{"in tcp without a port matches connection set-up", contivmodel.Rule{Direction: "in", Protocol: "tcp", Action: "deny"},
			Peer{Group: 9}, []string{"inRx prio=5 group 9->7 addr -> proto=6 port 0->0 deny syn,!ack"}},
		{"in anything", contivmodel.Rule{Direction: "in", Action: "deny"},
			Peer{}, []string{"inRx prio=5 group 0->7 addr -> proto=0 port 0->0 deny"}},
		{"in icmp with a port has one rule", contivmodel.Rule{Direction: "in", Protocol: "icmp", Port: 8, Action: "deny"},
			Peer{}, []string{"inRx prio=5 group 0->7 addr -> proto=1 port 0->8 deny"}},
		{"in 6 is tcp", contivmodel.Rule{Direction: "in", Protocol: "6", Port: 80, Action: "allow"}, Peer{},
			[]string{"inRx prio=5 group 0->7 addr -> proto=6 port 0->80 allow", "inTx prio=5 group 7->0 addr -> proto=6 port 80->0 allow"}},
		{"out tcp with a port has a rule for replies", contivmodel.Rule{Direction: "out", Protocol: "tcp", Port: 80, Action: "allow"},
			Peer{Group: 9, To: "10.1.0.0/16"},
			[]string{"outTx prio=5 group 7->9 addr ->10.1.0.0/16 proto=6 port 0->80 allow",
				"outRx prio=5 group 9->7 addr 10.1.0.0/16-> proto=6 port 80->0 allow"}},
		{"out tcp without a port matches connection set-up", contivmodel.Rule{Direction: "out", Protocol: "tcp", Action: "allow"},
			Peer{}, []string{"outTx prio=5 group 7->0 addr -> proto=6 port 0->0 allow syn,!ack"}},
		{"out 17 is udp", contivmodel.Rule{Direction: "out", Protocol: "17", Port: 5, Action: "allow"}, Peer{Group: 1},
			[]string{"outTx prio=5 group 7->1 addr -> proto=17 port 0->5 allow", "outRx prio=5 group 1->7 addr -> proto=17 port 5->0 allow"}},
		{"in 132 is SCTP, which has ports", contivmodel.Rule{Direction: "in", Protocol: "132", Port: 80, Action: "allow"}, Peer{Group: 9},
			[]string{"inRx prio=5 group 9->7 addr -> proto=132 port 0->80 allow", "inTx prio=5 group 7->9 addr -> proto=132 port 80->0 allow"}},
		{"out 132 without a port", contivmodel.Rule{Direction: "out", Protocol: "132", Action: "deny"}, Peer{},
			[]string{"outTx prio=5 group 7->0 addr -> proto=132 port 0->0 deny"}},
		{"out protocol 89", contivmodel.Rule{Direction: "out", Protocol: "89", Port: 5, Action: "deny"}, Peer{To: "10.9.9.9"},
			[]string{"outTx prio=5 group 7->0 addr ->10.9.9.9 proto=89 port 0->5 deny"}},
	} {
		c.rule.TenantName, c.rule.PolicyName, c.rule.RuleID, c.rule.Priority = "blue", "p", "1", 5
		got, err := Expand(&c.rule, "blue:front:blue:p", own, c.peer)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var lines []string
		for _, r := range got {
			if !strings.HasPrefix(r.RuleID, "blue:front:blue:p:blue:p:1:") {
				t.Errorf("%s: id %s", c.name, r.RuleID)
			}
			lines = append(lines, line(r))
		}
		if diff := cmp.Diff(c.want, lines); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestMeaninglessRulesAreRefused(t *testing.T) {
	for _, c := range []struct {
		rule contivmodel.Rule
		want string
	}{
		{contivmodel.Rule{Direction: "in", ToNetwork: "n"}, "can not specify 'to' parameters in incoming rule"},
		{contivmodel.Rule{Direction: "in", ToEndpointGroup: "g"}, "can not specify 'to' parameters in incoming rule"},
		{contivmodel.Rule{Direction: "in", FromNetwork: "n", FromIPAddress: "10.0.0.1"}, "can not specify both from network and from ip address"},
		{contivmodel.Rule{Direction: "in", FromNetwork: "n", FromEndpointGroup: "g"}, "can not specify both from network and from EndpointGroup"},
		{contivmodel.Rule{Direction: "out", FromNetwork: "n"}, "can not specify 'from' parameters in outgoing rule"},
		{contivmodel.Rule{Direction: "out", FromEndpointGroup: "n"}, "can not specify 'from' parameters in outgoing rule"},
		{contivmodel.Rule{Direction: "out", FromIPAddress: "10.0.0.1"}, "can not specify 'from' parameters in outgoing rule"},
		{contivmodel.Rule{Direction: "out", ToNetwork: "n", ToIPAddress: "10.0.0.1"}, "can not specify both to-network and to-ip address"},
		{contivmodel.Rule{Direction: "out", ToNetwork: "n", ToEndpointGroup: "g"}, "can not specify both to-network and to-EndpointGroup"},
		{contivmodel.Rule{Direction: "in", Protocol: "256"}, "protocol 256: want tcp, udp, icmp or a number up to 255"},
		{contivmodel.Rule{Direction: "in", Port: 80}, "port 80: protocol any has no ports: want tcp, udp or 132 (SCTP) for the rule, or no port"},
		{contivmodel.Rule{Direction: "in", Protocol: "icmp", Port: 8}, "port 8: protocol icmp has no ports: want tcp, udp or 132 (SCTP) for the rule, or no port"},
		{contivmodel.Rule{Direction: "out", Protocol: "89", Port: 8}, "port 8: protocol 89 has no ports: want tcp, udp or 132 (SCTP) for the rule, or no port"},
		{contivmodel.Rule{Direction: "in", Protocol: "0", Port: 8}, "port 8: protocol 0 has no ports: want tcp, udp or 132 (SCTP) for the rule, or no port"},
		{contivmodel.Rule{Direction: "in", Protocol: "132", Port: 80}, ""},
		{contivmodel.Rule{Direction: "in", Protocol: "006", Port: 80}, ""},
		{contivmodel.Rule{Direction: "in", FromIPAddress: "10.0.0.1-9"}, "fromIpAddress 10.0.0.1-9: want an address or address/length"},
		{contivmodel.Rule{Direction: "in", FromEndpointGroup: "g", FromIPAddress: "10.0.0.0/8"}, ""},
		{contivmodel.Rule{Direction: "in", ToIPAddress: "10.0.0.1"}, ""},
		{contivmodel.Rule{Direction: "out", ToEndpointGroup: "g", ToIPAddress: "10.0.0.1", Protocol: "icmp"}, ""},
	} {
		got := ""
		if err := CheckRule(&c.rule); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.rule, got, c.want)
		}
	}
}

func TestPeopleAreToldWhichFieldsDoNotGoTogether(t *testing.T) {
	for want, rule := range map[string]contivmodel.Rule{
		"fromNetwork n and fromIpAddress 10.0.0.1: want one of the two": {Direction: "in", FromNetwork: "n", FromIPAddress: "10.0.0.1"},
		"toNetwork n and toEndpointGroup g: want what the traffic of direction in comes from, such as fromEndpointGroup web": {
			Direction: "in", ToNetwork: "n", ToEndpointGroup: "g"},
		"fromIpAddress 10.0.0.1: want what the traffic of direction out goes to, such as toEndpointGroup web": {
			Direction: "out", FromIPAddress: "10.0.0.1"},
	} {
		if got := fault.Explain(CheckRule(&rule)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
