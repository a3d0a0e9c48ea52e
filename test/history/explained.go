package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Fate is the outcome of a call whose response was lost.
type Fate struct {
	Revision int64
	Exact    int64                       // as in the log, where Revision is the end of a large change
	Endpoint *mastercfg.CfgEndpointState // created or deleted
}

// Explain compares the two records: every object and endpoint that was added or removed was so because of exactly
// one call, and every success is in the store at the revision of its response. It returns the fate of the lost
// calls whose effect is in the store.
func Explain(e *Evidence) (fates map[*Call]Fate, found []string) {
	x := explanation{Evidence: e, fates: map[*Call]Fate{}}
	for _, key := range append(e.log.Keys(modelPrefix), e.log.Keys(endpointPrefix)...) {
		x.key(key)
	}
	for _, c := range e.calls {
		if c.Outcome == Done {
			x.success(c)
		}
	}
	return x.fates, x.found
}

type explanation struct {
	*Evidence
	fates map[*Call]Fate
	found []string
}

func (x *explanation) report(format string, args ...any) {
	x.found = append(x.found, fmt.Sprintf(format, args...))
}

// key explains all additions and removals of one key.
func (x *explanation) key(key string) {
	if key == modelKey("global", "global") || key == modelKey("tenant", "default") {
		return // created by the first leader
	}
	versions := x.log.versions[key]
	for i, v := range versions {
		if i == 0 || versions[i-1].To != v.From || x.replaced(key, versions[i-1], v) {
			x.change(key, v.From, v.Value, Post, CreateEndpoint)
		}
		if v.To != forever && (i+1 == len(versions) || versions[i+1].From != v.To || x.replaced(key, v, versions[i+1])) {
			x.change(key, v.To, v.Value, Delete, DeleteEndpoint)
		}
	}
}

// replaced reports whether an endpoint was deleted and recreated at the revision at which one version of its key
// follows another. Nothing else changes its addresses; it may get the same ones again.
func (x *explanation) replaced(key string, before, after Version) bool {
	old, made := endpointOf(key, before.Value), endpointOf(key, after.Value)
	if old == nil || made == nil {
		return false
	}
	return old.IPAddress != made.IPAddress || old.IPv6Address != made.IPv6Address ||
		slices.ContainsFunc(x.byKey[key], func(c *Call) bool { return c.Verb == DeleteEndpoint && c.exact == after.From })
}

// endpointOf returns the endpoint in the value of a key, or nil.
func endpointOf(key string, value []byte) *mastercfg.CfgEndpointState {
	ep := new(mastercfg.CfgEndpointState)
	if !strings.HasPrefix(key, endpointPrefix) || json.Unmarshal(value, ep) != nil {
		return nil
	}
	return ep
}

// change explains the addition or removal of a key at a revision.
func (x *explanation) change(key string, revision int64, value []byte, verbs ...Verb) {
	exact := revision
	revision = x.log.settled(revision)
	if len(x.during(key, revision, revision, verbs...)) > 0 || verbs[0] == Delete && x.deleted(key, revision, revision) {
		return
	}
	lost := x.lost[key]
	if policy := policyOfRule(key); policy != "" && verbs[0] == Delete {
		lost = slices.Concat(lost, x.lost[policy])
	}
	ep := endpointOf(key, value)
	for _, c := range lost {
		fate, used := x.fates[c]
		// Deleting a policy deletes several rules, at one revision.
		if slices.Contains(verbs, c.Verb) && c.may(revision) && (!used || fate.Revision == revision) {
			x.fates[c] = Fate{revision, exact, ep}
			return
		}
	}
	x.report("revision %d: nobody asked for %s %s", revision, verbs[0], key)
}

// success checks that a successful response is in the store.
func (x *explanation) success(c *Call) {
	if c.Wrong != "" {
		x.report("accepted although it has a wrong %s: %s", c.Wrong, c)
	}
	if c.Verb != Get && c.Revision < c.From {
		x.report("answered with a revision older than what others knew before: %s", c)
	}
	key := c.storeKey()
	switch c.Verb {
	case Post:
		if x.log.At(key, c.Revision) == nil && !x.deleted(key, c.Revision, c.Revision) && !x.undone(c, Delete) {
			x.report("succeeded, but %s is not in the store: %s", key, c)
		}
	case Delete, DeleteEndpoint:
		if x.log.At(key, c.Revision) != nil && len(x.during(key, c.Revision, c.Revision, Post, CreateEndpoint)) == 0 && !x.undone(c, Post, CreateEndpoint) {
			x.report("succeeded, but %s is in the store: %s", key, c)
		}
		if c.Verb == DeleteEndpoint {
			x.unseen(c)
		}
	case CreateEndpoint:
		x.endpointStored(c)
	}
	if c.Verb == Post && x.lostUpdate(c) {
		x.report("succeeded, but the store holds something else: %s", c)
	}
}

// unseen finds the creator of an endpoint that was deleted at the revision of its creation: the log does not show
// it, and the creator's response may be lost.
func (x *explanation) unseen(c *Call) {
	key, at := c.storeKey(), c.Revision
	missing := len(x.during(key, at, at, DeleteEndpoint)) - len(x.during(key, at, at, CreateEndpoint))
	if x.log.At(key, x.log.before(at)) != nil {
		missing--
	}
	if x.log.At(key, at) != nil {
		missing++
	}
	var free []*Call
	for _, l := range x.lost[key] {
		fate, used := x.fates[l]
		switch {
		case !used && l.Verb == CreateEndpoint && l.may(at):
			free = append(free, l)
		case used && fate.Revision == at && l.Verb == CreateEndpoint:
			missing--
		case used && fate.Revision == at && l.Verb == DeleteEndpoint:
			missing++
		}
	}
	for range missing {
		if len(free) == 0 {
			x.report("succeeded, but %s was not in the store: %s", key, c)
			return
		}
		x.fates[free[0]] = Fate{at, c.exact, c.endpoint()}
		free = free[1:]
	}
}

// undone reports whether a lost call may have done the opposite at the revision of a success.
func (x *explanation) undone(c *Call, opposite ...Verb) bool {
	return slices.ContainsFunc(x.lost[c.storeKey()], func(l *Call) bool {
		fate, used := x.fates[l]
		return slices.Contains(opposite, l.Verb) && l.may(c.Revision) && (!used || fate.Revision == c.Revision)
	})
}

// endpointStored checks that the record in a response is the record in the store, at that revision or (for an
// endpoint that existed) before.
func (x *explanation) endpointStored(c *Call) {
	ep := c.endpoint()
	if ep == nil {
		x.report("succeeded without a record: %s", c)
		return
	}
	if len(x.during(c.storeKey(), c.Revision, c.Revision, DeleteEndpoint)) > 0 || x.undone(c, DeleteEndpoint) {
		return // deleted at the same revision
	}
	value := x.log.At(c.storeKey(), c.Revision)
	var stored mastercfg.CfgEndpointState
	if json.Unmarshal(value, &stored) != nil || stored.IPAddress != ep.IPAddress || stored.IPv6Address != ep.IPv6Address ||
		stored.EndpointGroupKey != ep.EndpointGroupKey || stored.MacAddress != ep.MacAddress || stored.HomingHost != ep.HomingHost {
		x.report("the store has %s, but the answer was %s: %s", value, c.Body, c)
	}
}

// changeable are the fields that an update replaces, by type. They must have the values of the last call with the
// same revision in its response.
var changeable = map[string][]string{
	"endpointGroup": {"policies", "netProfile", "extContractsGrps"},
	"netprofile":    {"bandwidth", "DSCP", "burst"},
	"appProfile":    {"endpointGroups"},
	"serviceLB":     {"networkName", "ipAddress", "ports", "selectors"},
	"Bgp":           {"routerip", "as", "neighbor", "neighbor-as", "neighbors"},
	"network":       {"encap", "subnet", "gateway", "pktTag", "ipv6Subnet", "ipv6Gateway", "nwType", "cfgdTag"},
	"rule":          {"direction", "protocol", "port", "action", "fromEndpointGroup", "toEndpointGroup", "fromNetwork", "toNetwork", "fromIpAddress", "toIpAddress"},
}

// lostUpdate reports whether the store lacks an update although no other call about the object can have replaced
// it at the same revision.
func (x *explanation) lostUpdate(c *Call) bool {
	value := x.log.At(c.storeKey(), c.Revision)
	if value == nil || len(x.during(c.storeKey(), c.Revision, c.Revision, Post, Delete)) > 1 {
		return false
	}
	if slices.ContainsFunc(x.lost[c.storeKey()], func(l *Call) bool { return l.may(c.Revision) }) {
		return false
	}
	return !sameFields(c.Object, value, changeable[c.Type])
}

func sameFields(sent contivmodel.Object, stored []byte, fields []string) bool {
	text, err := json.Marshal(sent)
	if err != nil {
		return false
	}
	var a, b map[string]json.RawMessage
	if json.Unmarshal(text, &a) != nil || json.Unmarshal(stored, &b) != nil {
		return false
	}
	return !slices.ContainsFunc(fields, func(field string) bool { return !bytes.Equal(a[field], b[field]) })
}
