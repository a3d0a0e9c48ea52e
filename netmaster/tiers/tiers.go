// Package tiers computes what the policies of Kubernetes decide about a connection, from the records that agents
// turn into flows (docs/pipeline.md, Tiers), to explain it to users.
//
// A connection is evaluated twice: whether the sender may open it and whether the receiver accepts it. The tiers
// are evaluated in order, and the first with a matching rule decides, unless the rule passes to the next one.
package tiers

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// State has the records about policies.
type State struct {
	Classes  map[uint16]mastercfg.K8sClass
	Policies map[string]mastercfg.K8sPolicy // by id
	Final    []mastercfg.CfgPolicyRule      // rules of groups, in a tenant with mode final; else none
}

// End is one end of a connection.
type End struct {
	Judged  bool // it is a pod with its own network
	Classed bool // its class is known; else it is isolated
	Class   uint16
	Group   int // 0: none
	Address netip.Addr
	Known   []netip.Addr // of a node: its InternalIPs of the same family, by which policies admit its processes
}

// Connection is a connection to a port; the IP families of the addresses are equal.
type Connection struct {
	From, To End
	Protocol uint8
	Port     uint16
	OwnNode  bool // between a pod and the processes of its node, which is exempt from policies
}

// Decision is the result of the tiers for a connection in one direction.
type Decision struct {
	Allowed bool
	Tier    int    // that has decided; None: none; OfGroups: none was evaluated
	Policy  string // whose rule has decided; empty: because none allows it, or none applies
}

// Values that are not tiers.
const (
	None     = -1 // no tier has a rule for it: allowed
	OfGroups = -2 // a rule of the group allows it, and ends the evaluation
	Unknown  = -3 // the class of the pod is not known, so no rule can match it: denied
)

// isolating is the tier whose policies isolate.
const isolating = 1

// Out returns whether the sender may open a connection.
func (s State) Out(c Connection) Decision { return s.decide(c.From, c.To, true, c) }

// In returns whether the receiver accepts a connection.
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
		isolates = true // no rule can match it
	}
	for tier := range 3 {
		rule, policy, found := s.first(tier, out, func(r mastercfg.TierRule) bool { return concerns(r, subject, peer, c) })
		switch {
		case found && rule.Verdict != "pass":
			return Decision{rule.Verdict == "accept", tier, policy}
		case !found && tier == isolating && !subject.Classed:
			return Decision{false, Unknown, ""}
		case !found && tier == isolating && isolates:
			return Decision{false, tier, ""}
		}
	}
	return Decision{Allowed: true, Tier: None}
}

// first returns the first matching rule of a tier. In the tier of policies all rules allow: it is that of the
// policy with the first id.
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

// within reports whether one of some networks, as texts, contains an address.
func within(nets []string, a netip.Addr) bool {
	return slices.ContainsFunc(nets, func(text string) bool {
		net, err := netip.ParsePrefix(text)
		return err == nil && net.Contains(a)
	})
}
