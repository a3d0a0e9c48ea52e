package tiers

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/inet"
)

// Groups returns what rules between groups decide about the first packet of a connection: among those of the
// highest priority, one that denies wins. They apply to every packet, on both nodes alike.
func Groups(rules []mastercfg.CfgPolicyRule, from, to int, c Connection) (allowed bool, rule string) {
	allowed, best := true, 0
	for _, r := range rules {
		if r.Priority < best || !isAbout(r, from, to, c) {
			continue
		}
		if allows := r.Action == "allow"; r.Priority > best || allowed && !allows {
			allowed, best, rule = allows, r.Priority, r.RuleID
		}
	}
	return allowed, rule
}

// ended reports whether rules of the sender's group, or of the receiver's, end the evaluation of a connection in
// that direction: the matching rule with the highest priority allows it. Rules of the other end do not count.
func ended(final []mastercfg.CfgPolicyRule, out bool, c Connection) (rule string, ends bool) {
	own := func(r mastercfg.CfgPolicyRule) bool {
		if out {
			return mastercfg.RuleDirection(r.RuleID) == mastercfg.OutTx && r.SrcEndpointGroup != 0
		}
		return mastercfg.RuleDirection(r.RuleID) == mastercfg.InRx && r.DstEndpointGroup != 0
	}
	var rules []mastercfg.CfgPolicyRule
	for _, r := range final {
		if own(r) {
			rules = append(rules, r)
		}
	}
	allowed, rule := Groups(rules, c.From.Group, c.To.Group, c)
	return rule, allowed && rule != ""
}

func isAbout(r mastercfg.CfgPolicyRule, from, to int, c Connection) bool {
	return (r.SrcEndpointGroup == 0 || r.SrcEndpointGroup == from) && (r.DstEndpointGroup == 0 || r.DstEndpointGroup == to) &&
		isAt(c.From.Address, r.SrcIPAddr, r.SrcIPv6Addr) && isAt(c.To.Address, r.DstIPAddr, r.DstIPv6Addr) &&
		(r.IPProtocol == 0 || r.IPProtocol == c.Protocol) && r.SrcPort == 0 && (r.DstPort == 0 || r.DstPort == c.Port || !inet.HasPorts(r.IPProtocol)) &&
		slices.Contains([]string{"", "syn", "syn,!ack"}, r.TCPFlags) // the flags of a first packet
}

// isAt reports whether an address is one of those that a rule names, or the rule names none.
func isAt(a netip.Addr, named ...string) bool {
	any := true
	for _, text := range named {
		if text == "" {
			continue
		}
		any = false
		net, err := netip.ParsePrefix(text)
		if one, of := netip.ParseAddr(text); of == nil {
			net, err = inet.Host(one), nil
		}
		if err == nil && net.Contains(a) {
			return true
		}
	}
	return any
}
