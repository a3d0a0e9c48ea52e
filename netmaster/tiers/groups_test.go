package tiers_test

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/tiers"
)

// A rule of an earlier version may name a port beside a protocol that has none. Switches look at none then.
func TestAPortIsLookedAtIfTheProtocolHasPorts(t *testing.T) {
	at := func(address string) tiers.End { return tiers.End{Address: netip.MustParseAddr(address)} }
	for _, c := range []struct {
		rule, connection uint8 // protocols
		port             uint16
		denied           bool
	}{
		{0, 6, 81, true}, {0, 132, 81, true}, {6, 6, 80, true}, {6, 6, 81, false}, {132, 132, 80, true}, {132, 132, 81, false}, {132, 6, 80, false},
	} {
		rules := []mastercfg.CfgPolicyRule{{RuleID: "r", Priority: 1, IPProtocol: c.rule, DstPort: 80, Action: "deny"}}
		allowed, _ := tiers.Groups(rules, 1, 2, tiers.Connection{From: at("10.0.0.1"), To: at("10.0.0.2"), Protocol: c.connection, Port: c.port})
		if allowed == c.denied {
			t.Errorf("%+v: allowed %v", c, allowed)
		}
	}
}

// A rule with a source port is about answers, whose port is that of the service: it decides nothing about what begins a connection.
func TestARuleWithASourcePortIsNotAboutTheBeginning(t *testing.T) {
	at := func(address string) tiers.End { return tiers.End{Address: netip.MustParseAddr(address)} }
	rules := []mastercfg.CfgPolicyRule{{RuleID: "r", Priority: 1, IPProtocol: 6, SrcPort: 80, Action: "deny"}}
	allowed, rule := tiers.Groups(rules, 1, 2, tiers.Connection{From: at("10.0.0.1"), To: at("10.0.0.2"), Protocol: 6, Port: 80})
	if !allowed || rule != "" {
		t.Errorf("allowed %v, by rule %q", allowed, rule)
	}
}
