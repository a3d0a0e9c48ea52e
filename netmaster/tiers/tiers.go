// Package tiers says what the policies of Kubernetes decide about a connection, from the
// records that agents make flows of (docs/pipeline.md, Tiers): for people who ask why.
//
// A connection is judged twice, what the sender may begin and what the receiver accepts.
// The tiers are asked in their order, and the first that has a rule for it decides, unless the rule
// says to ask the next one.
package tiers

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// State is what is written about policies.
type State struct {
	Classes  map[uint16]mastercfg.K8sClass
	Policies map[string]mastercfg.K8sPolicy // by id
	Final    []mastercfg.CfgPolicyRule      // rules of groups, in a tenant whose mode is final; else none
}

// End is an end of a connection.
type End struct {
	Judged  bool // it is a pod with a network of its own
	Classed bool // it is known which class it has; else it is isolated
	Class   uint16
	Group   int // 0: none
	Address netip.Addr
	Known   []netip.Addr // of a node: its InternalIPs of the same family, by which policies let in its processes
}

// Connection is one to a port; the families of the addresses are the same.
type Connection struct {
	From, To End
	Protocol uint8
	Port     uint16
	OwnNode  bool // of a pod and the processes of its node, which no policy is asked about
}

// Decision is what the tiers say of a connection in one direction.
type Decision struct {
	Allowed bool
	Tier    int    // that has decided; None: none; OfGroups: none was asked
	Policy  string // whose rule has decided; empty: that none allows it, or that nothing judges it
}

// These are no tiers.
const (
	None     = -1 // what nothing is said about is allowed
	OfGroups = -2 // a rule of the group allows, and ends the judgement
)

// isolating is the tier of policies.
const isolating = 1

// Out says whether the sender may begin a connection.
func (s State) Out(c Connection) Decision { return s.decide(c.From, c.To, true, c) }

// In says whether the receiver accepts a connection.
func (s State) In(c Connection) Decision { return s.decide(c.To, c.From, false, c) }

func (s State) decide(subject, peer End, out bool, c Connection) Decision {
	if !subject.Judged || c.OwnNode {
		return Decision{Allowed: true, Tier: None}
	}
	if rule, ends := ended(s.Final, out, c); ends {
		return Decision{true, OfGroups, rule}
	}
	class, known := s.Classes[subject.Class]
	isolates := class.IsolatesIn
	if out {
		isolates = class.IsolatesOut
	}
	if !subject.Classed || subject.Class != 0 && !known {
		isolates = true // no rule can be about it
	}
	for tier := range 3 {
		rule, policy, found := s.first(tier, out, func(r mastercfg.TierRule) bool { return concerns(r, subject, peer, c) })
		switch {
		case found && rule.Verdict != "pass":
			return Decision{rule.Verdict == "accept", tier, policy}
		case !found && tier == isolating && isolates:
			return Decision{false, tier, ""}
		}
	}
	return Decision{Allowed: true, Tier: None}
}

// first is the rule of a tier that comes first of those that are about a connection. In the tier of
// policies all allow: that of the policy whose id comes first.
func (s State) first(tier int, out bool, about func(mastercfg.TierRule) bool) (rule mastercfg.TierRule, policy string, found bool) {
	for id, p := range s.Policies {
		for _, r := range p.Rules {
			if r.Tier == tier && r.Out == out && about(r) && (!found || cmp.Or(cmp.Compare(r.Rank, rule.Rank), cmp.Compare(id, policy)) < 0) {
				rule, policy, found = r, id, true
			}
		}
	}
	return rule, policy, found
}

func concerns(r mastercfg.TierRule, subject, peer End, c Connection) bool {
	if !subject.Classed || !slices.Contains(r.Subjects, subject.Class) {
		return false
	}
	if receiver := c.To; len(r.Serving) > 0 && !(receiver.Judged && receiver.Classed && slices.Contains(r.Serving, receiver.Class)) {
		return false
	}
	isPeer := r.Anyone() || peer.Judged && peer.Classed && (r.AnyPod && peer.Class != 0 || slices.Contains(r.Peers, peer.Class))
	isPeer = isPeer || within(r.Nets, peer.Address) || !r.Out && slices.ContainsFunc(peer.Known, func(a netip.Addr) bool {
		names := func(x mastercfg.TierExcept) bool { return within([]string{x.Net}, a) && !within(x.Except, a) }
		return within(r.Nets, a) && (!slices.ContainsFunc(r.Excepts, names) ||
			slices.ContainsFunc(r.Excepts, func(x mastercfg.TierExcept) bool { return names(x) && !within(x.Except, peer.Address) }))
	})
	return isPeer && (len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p mastercfg.TierPorts) bool {
		return p.Protocol == c.Protocol && p.First <= c.Port && c.Port <= p.Last
	}))
}

// within tells whether one of some networks, as texts, holds an address.
func within(nets []string, a netip.Addr) bool {
	return slices.ContainsFunc(nets, func(text string) bool {
		net, err := netip.ParsePrefix(text)
		return err == nil && net.Contains(a)
	})
}
