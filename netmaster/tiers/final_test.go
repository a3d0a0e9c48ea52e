package tiers_test

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/tiers"
)

// Both pods are isolated, and no policy allows anything. What the highest rule of the own group allows, in the direction of its own, is
// nevertheless allowed in that direction.
func TestOnlyTheHighestRuleOfTheOwnGroupEndsTheJudgement(t *testing.T) {
	const front, store = 7, 8
	rule := func(direction, action string, priority, src, dst int, port uint16) mastercfg.CfgPolicyRule {
		return mastercfg.CfgPolicyRule{RuleID: "blue:g:blue:p:blue:p:" + action + ":" + direction, Priority: priority, Action: action, SrcEndpointGroup: src, DstEndpointGroup: dst, IPProtocol: 6, DstPort: port}
	}
	in := rule("inRx", "allow", 5, front, store, 80)
	for _, c := range []struct {
		name     string
		rules    []mastercfg.CfgPolicyRule
		from, to int
		port     uint16
		out, in  bool // no policy is asked
	}{
		{"no rules", nil, front, store, 80, false, false},
		{"a rule of the receiver's group", []mastercfg.CfgPolicyRule{in}, front, store, 80, false, true},
		{"about another port", []mastercfg.CfgPolicyRule{in}, front, store, 81, false, false},
		{"about another group", []mastercfg.CfgPolicyRule{in}, store, store, 80, false, false},
		{"pods without a group", []mastercfg.CfgPolicyRule{in}, 0, 0, 80, false, false},
		{"a rule of the sender's group", []mastercfg.CfgPolicyRule{rule("outTx", "allow", 5, front, store, 80)}, front, store, 80, true, false},
		{"rules of both", []mastercfg.CfgPolicyRule{in, rule("outTx", "allow", 1, front, 0, 0)}, front, store, 80, true, true},
		{"rules about answers", []mastercfg.CfgPolicyRule{rule("inTx", "allow", 5, front, store, 0), rule("outRx", "allow", 5, front, store, 0)}, front, store, 80, false, false},
		{"a higher one of the group denies", []mastercfg.CfgPolicyRule{in, rule("inRx", "deny", 6, 0, store, 0)}, front, store, 80, false, false},
		{"as high a one denies", []mastercfg.CfgPolicyRule{in, rule("inRx", "deny", 5, 0, store, 0)}, front, store, 80, false, false},
		{"a lower one denies", []mastercfg.CfgPolicyRule{in, rule("inRx", "deny", 4, 0, store, 0)}, front, store, 80, false, true},
		{"a higher one of the other end denies", []mastercfg.CfgPolicyRule{in, rule("outTx", "deny", 6, front, 0, 0)}, front, store, 80, false, true},
	} {
		end := func(address string, class uint16, group int) tiers.End {
			return tiers.End{Judged: true, Classed: true, Class: class, Group: group, Address: netip.MustParseAddr(address)}
		}
		isolated := mastercfg.K8sClass{JudgesIn: true, IsolatesIn: true, JudgesOut: true, IsolatesOut: true}
		s := tiers.State{Classes: map[uint16]mastercfg.K8sClass{1: isolated, 2: isolated}, Final: c.rules}
		about := tiers.Connection{From: end("10.0.0.1", 1, c.from), To: end("10.0.0.2", 2, c.to), Protocol: 6, Port: c.port}
		out, in := s.Out(about), s.In(about)
		if out.Allowed != c.out || in.Allowed != c.in || (out.Tier == tiers.OfGroups) != c.out || (in.Tier == tiers.OfGroups) != c.in || (in.Policy != "") != c.in {
			t.Errorf("%s: %+v, %+v; want %v, %v", c.name, out, in, c.out, c.in)
		}
	}
}
