package history

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Evidence has both records, indexed for questions about possible states.
//
// Concurrent requests may be committed at one revision. The log does not show the state between them, but the
// other requests with the same revision do: so every question considers the log and the successes within the
// window of the call. A large change counts at its last revision.
type Evidence struct {
	log   *Log
	calls []*Call
	byKey map[string][]*Call // successes, by the key of their object
	lost  map[string][]*Call // calls with an unknown outcome, likewise
	given []grant            // sorted by revision
}

// grant is an allocation of addresses.
type grant struct {
	revision  int64
	networkID string
	addresses []netip.Addr
}

// grant returns the addresses that a call allocated; none: it did not.
func (c *Call) grant() grant {
	g := grant{revision: c.Revision}
	switch {
	case c.Outcome != Done:
	case c.Verb == AllocAddress:
		g.networkID, g.addresses = c.Key, []netip.Addr{c.address()}
	case c.Verb == CreateEndpoint:
		ep := c.endpoint()
		if ep == nil {
			break
		}
		g.networkID = ep.NetID
		for _, text := range []string{ep.IPAddress, ep.IPv6Address} {
			if a, err := netip.ParseAddr(text); err == nil {
				g.addresses = append(g.addresses, a)
			}
		}
	}
	return g
}

// NewEvidence indexes both records.
func NewEvidence(log *Log, calls []*Call) *Evidence {
	e := &Evidence{log: log, calls: calls, byKey: map[string][]*Call{}, lost: map[string][]*Call{}}
	for _, c := range calls {
		c.exact, c.To, c.Revision = c.Revision, log.settled(c.To), log.settled(c.Revision)
		switch {
		case c.Outcome == Done && c.Verb == Delete && c.Result == "unchanged": // there was nothing to delete
		case c.Outcome == Done:
			e.byKey[c.storeKey()] = append(e.byKey[c.storeKey()], c)
		case c.Outcome == Unknown:
			e.lost[c.storeKey()] = append(e.lost[c.storeKey()], c)
		}
		if g := c.grant(); len(g.addresses) > 0 {
			e.given = append(e.given, g)
		}
	}
	slices.SortFunc(e.given, func(a, b grant) int { return cmp.Compare(a.revision, b.revision) })
	return e
}

// may reports whether a lost call can have happened at a revision.
func (c *Call) may(revision int64) bool { return c.From < revision && revision <= c.To }

// during returns the successes about a key within a window.
func (e *Evidence) during(key string, from, to int64, verbs ...Verb) []*Call {
	var found []*Call
	for _, c := range e.byKey[key] {
		for _, verb := range verbs {
			if c.Verb == verb && c.Revision >= from && c.Revision <= to {
				found = append(found, c)
			}
		}
	}
	return found
}

// present reports whether a key may have existed during a call.
func (e *Evidence) present(c *Call, key string) bool {
	return len(e.log.Alive(key, c.From, c.To)) > 0 || len(e.during(key, c.From, c.To, Post, CreateEndpoint)) > 0 ||
		c.mate(func(m *Call) bool { return m.Verb == Post && m.storeKey() == key })
}

// away reports whether a key may have been absent during a call.
func (e *Evidence) away(c *Call, key string) bool {
	return e.log.Away(key, c.From, c.To) || e.deleted(key, c.From, c.To) ||
		c.mate(func(m *Call) bool { return m.Verb == Delete && (m.storeKey() == key || m.deletesRule(key)) })
}

// deleted reports whether a key was deleted within a window. A rule is deleted with its policy.
func (e *Evidence) deleted(key string, from, to int64) bool {
	if policy := policyOfRule(key); policy != "" && e.deleted(policy, from, to) {
		return true
	}
	return len(e.during(key, from, to, Delete, DeleteEndpoint)) > 0
}

// policyOfRule returns the key of the policy of a rule, empty for other keys.
func policyOfRule(key string) string {
	rule, ok := strings.CutPrefix(key, modelPrefix+"rule/")
	if !ok {
		return ""
	}
	return modelKey("policy", rule[:strings.LastIndex(rule, ":")])
}

// deletesRule reports whether a deletion removes a rule with its policy.
func (c *Call) deletesRule(key string) bool {
	return c.Type == "policy" && c.storeKey() == policyOfRule(key)
}

func modelKey(typ, key string) string { return modelPrefix + typ + "/" + key }

// some reports whether there may have been an object below a prefix of the model, during a call, for which a
// predicate is true.
func some[T any, P interface {
	*T
	contivmodel.Object
}](e *Evidence, c *Call, tenant string, is func(P) bool) bool {
	typ := P(new(T)).ModelType()
	prefix := modelKey(typ, "")
	if tenant != "" {
		prefix = modelKey(typ, tenant+":")
	}
	for _, m := range c.mates {
		if o, ok := m.Object.(P); ok && m != c && strings.HasPrefix(m.storeKey(), prefix) && is(o) {
			return true
		}
	}
	for _, key := range e.log.Keys(prefix) {
		for _, v := range e.log.Alive(key, c.From, c.To) {
			if o, ok := decodeObject(typ, v.Value).(P); ok && is(o) {
				return true
			}
		}
		for _, made := range e.during(key, c.From, c.To, Post) {
			if o, ok := made.Object.(P); ok && is(o) {
				return true
			}
		}
	}
	return false
}

// someEndpoint does the same for endpoints.
func someEndpoint(e *Evidence, c *Call, networkID string, is func(*mastercfg.CfgEndpointState) bool) bool {
	for _, key := range e.log.Keys(endpointPrefix + networkID + "-") {
		for _, v := range e.log.Alive(key, c.From, c.To) {
			var ep mastercfg.CfgEndpointState
			if json.Unmarshal(v.Value, &ep) == nil && is(&ep) {
				return true
			}
		}
		for _, made := range e.during(key, c.From, c.To, CreateEndpoint) {
			if ep := made.endpoint(); ep != nil && is(ep) {
				return true
			}
		}
	}
	return false
}

// endpoint returns the record in the response of an endpoint's route.
func (c *Call) endpoint() *mastercfg.CfgEndpointState {
	var answer mastercfg.CreateEndpointResponse
	if json.Unmarshal(c.Body, &answer) != nil || answer.EndpointConfig.ID == "" {
		return nil
	}
	return &answer.EndpointConfig
}

// address returns the address in the response of an allocation.
func (c *Call) address() netip.Addr {
	var answer mastercfg.AllocAddressResponse
	if json.Unmarshal(c.Body, &answer) != nil {
		return netip.Addr{}
	}
	prefix, _ := netip.ParsePrefix(answer.IPv4Address)
	return prefix.Addr()
}

// allocated reports whether an address was allocated without an endpoint at a revision.
func (e *Evidence) allocated(networkID string, a netip.Addr, revision int64) bool {
	for _, c := range e.byKey[""] {
		if c.Verb == AllocAddress && c.Key == networkID && c.Revision == revision && c.address() == a {
			return true
		}
	}
	for _, c := range e.lost[""] {
		if c.Verb == AllocAddress && c.Key == networkID && c.may(revision) {
			return true
		}
	}
	return false
}

// fleeting counts the objects of a kind that were posted during a call and were deleted, or changed, at the
// revision of their response: the log does not show their values.
func (e *Evidence) fleeting(c *Call, is func(posted *Call) bool) int {
	n := 0
	for _, other := range e.calls {
		if other.Outcome == Done && other.Verb == Post && other.Revision >= c.From && other.Revision <= c.To && is(other) &&
			(e.log.At(other.storeKey(), other.Revision) == nil || len(e.during(other.storeKey(), other.Revision, other.Revision, Post, Delete)) > 1) {
			n++
		}
	}
	for _, m := range c.mates {
		if m != c && m.Verb == Post && is(m) {
			n++
		}
	}
	return n
}
