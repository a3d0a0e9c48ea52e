package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// tiers has the compiled form of Kubernetes policies: classes of pods, rules between classes, and the epoch.
// The class of a pod is in the pod's record, which may arrive before its endpoint or after it.
//
// The switch has the rules whose subject is a class with an endpoint on this node. In bridged networks it has the
// rules for the egress of all other endpoints as well, as it judges what these flood. If the last endpoint of a
// class changes to another class, the rules of the old class stay until the next epoch but one: until the
// switch has revalidated the flows of its datapath, some of them still classify by the old class. Without a
// rule for that class, connections would pass that both classes deny.
type tiers struct {
	podClasses map[string]podClass       // by podID, of all nodes
	podsOf     index                     // the same -> endpoints
	judges     map[uint16]pipeline.Tiers // what the tiers evaluate for a class with a record
	classOf    map[string]classHolder    // endpoints with a class
	here, far  classes                   // of the endpoints of this node, and of all others
	policyOf   map[string][]string       // policy -> rules
	rules      map[string]pipeline.TierRule
	about      map[uint16]map[string]struct{} // class -> rules with it as subject
	nodePeers  map[string][]except            // rules that may have nodes as peers -> what they except from their networks; see infraAddressesOfNodes
	numbers    ruleNumbers
	epoch      uint32 // 0: none
	epochs     int    // number of epochs so far
}

// classHolder is an endpoint's class, and whether the endpoint is on another node.
type classHolder struct {
	class uint16
	far   bool
}

// classes are the classes of some endpoints.
type classes struct {
	held   map[uint16]map[string]struct{} // class -> endpoints with it
	lately map[uint16]int                 // classes that endpoints have left -> value of epochs then
}

// have reports whether an endpoint has the class, or flows of the datapath may still use it.
func (s classes) have(class uint16) bool {
	_, lately := s.lately[class]
	return lately || len(s.held[class]) > 0
}

func newClasses() classes {
	return classes{make(map[uint16]map[string]struct{}), make(map[uint16]int)}
}

// take gives an endpoint a class, and reports whether it is the first one.
func (s classes) take(class uint16, endpoint string) (first bool) {
	if first = s.held[class] == nil; first {
		s.held[class] = make(map[string]struct{})
	}
	s.held[class][endpoint] = struct{}{}
	return first
}

// leave takes the class from an endpoint, and reports whether it was the last one.
func (s classes) leave(class uint16, endpoint string) (last bool) {
	delete(s.held[class], endpoint)
	if last = len(s.held[class]) == 0; last {
		delete(s.held, class)
	}
	return last
}

// podClass is the class in a pod's record.
type podClass struct {
	number uint16
	known  bool
}

func newTiers() tiers {
	return tiers{
		podClasses: make(map[string]podClass), podsOf: make(index), judges: make(map[uint16]pipeline.Tiers),
		classOf: make(map[string]classHolder), here: newClasses(), far: newClasses(),
		policyOf: make(map[string][]string), rules: make(map[string]pipeline.TierRule),
		about: make(map[uint16]map[string]struct{}), nodePeers: make(map[string][]except), numbers: newRuleNumbers(),
	}
}

// isolated is the isolation of a pod of which nothing is known.
const isolated = pipeline.JudgesOut | pipeline.IsolatesOut | pipeline.JudgesIn | pipeline.IsolatesIn | pipeline.Tracked

// tiersOf returns the class of an endpoint and which of its connections the tiers evaluate. Connections of pods
// are tracked from the start of the pod: if a later policy applies to them, the end that opened each is known.
func (t *tiers) tiersOf(e endpoint) (class uint16, what pipeline.Tiers) {
	if e.pod == "" {
		return 0, 0
	}
	pod := t.podClasses[e.podID()]
	if !pod.known {
		return 0, isolated
	}
	what, known := t.judges[pod.number]
	if !known && pod.number != 0 {
		what = isolated
	}
	return pod.number, what | pipeline.Tracked
}

// setPod updates the index from pods to endpoints.
func (t *tiers) setPod(before, now, endpoint string) {
	if before != "" {
		t.podsOf.remove(before, endpoint)
	}
	if now != "" {
		t.podsOf.add(now, endpoint)
	}
}

// setPodClass sets the class of a pod.
func (c *cache) setPodClass(pod string, now podClass) {
	if c.tiers.podClasses[pod] == now {
		return
	}
	c.tiers.podClasses[pod] = now
	if now == (podClass{}) {
		delete(c.tiers.podClasses, pod)
	}
	for id := range c.tiers.podsOf[pod] {
		c.settleClass(id)
		c.mark(pipeline.KindEndpoint, id)
	}
}

// settleClass updates which endpoints have which class. It marks the
// rules of a class that appears on this node or disappears from it, in bridged networks also on other nodes.
func (c *cache) settleClass(id string) {
	e := c.endpoints[id]
	class, _ := c.tiers.tiersOf(e)
	before, now := c.tiers.classOf[id], classHolder{class, class != 0 && e.host != c.host}
	if before == now {
		return
	}
	if before.class != 0 {
		if c.knows(id) {
			c.tiers.on(before).lately[before.class] = c.tiers.epochs
		}
		c.markRulesOf(before, c.tiers.on(before).leave(before.class, id))
	}
	if delete(c.tiers.classOf, id); class != 0 {
		c.tiers.classOf[id] = now
		c.markRulesOf(now, c.tiers.on(now).take(class, id))
	}
}

// markRulesOf marks the rules about a class that an endpoint gets or leaves, the only one of its side or not. An endpoint of
// this node may belong to a tenant that is new to the class.
func (c *cache) markRulesOf(h classHolder, only bool) {
	if h.far && !(only && c.mode.Bridged()) {
		return
	}
	for rule := range c.tiers.about[h.class] {
		if only || c.tiers.mayBeAboutNodes(rule) {
			c.mark(pipeline.KindTierRule, rule)
		}
	}
}

// on returns the classes of the endpoints of this node, or of all others.
func (t *tiers) on(h classHolder) classes {
	if h.far {
		return t.far
	}
	return t.here
}

// rulesAbout returns the rules that have an endpoint of this node as subject.
func (t *tiers) rulesAbout(endpoint string) []pipeline.Key {
	var keys []pipeline.Key
	for id := range t.about[t.classOf[endpoint].class] {
		keys = append(keys, pipeline.Key{Kind: pipeline.KindTierRule, ID: id})
	}
	return keys
}

func (c *cache) putClass(id string, value []byte, _ int64) error {
	number, err := strconv.ParseUint(id, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("class %q is not in 1..65535", id)
	}
	var r mastercfg.K8sClass
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	var what pipeline.Tiers
	for bit, judged := range map[pipeline.Tiers]bool{pipeline.JudgesOut: r.JudgesOut, pipeline.IsolatesOut: r.IsolatesOut, pipeline.JudgesIn: r.JudgesIn, pipeline.IsolatesIn: r.IsolatesIn} {
		if judged {
			what |= bit
		}
	}
	if old, known := c.tiers.judges[uint16(number)]; !known || old != what {
		c.tiers.judges[uint16(number)] = what
		c.markClass(uint16(number))
	}
	return nil
}

func (c *cache) removeClass(id string) {
	if number, err := strconv.ParseUint(id, 10, 16); err == nil {
		delete(c.tiers.judges, uint16(number))
		c.markClass(uint16(number))
	}
}

// markClass marks the endpoints with a class that this node judges.
func (c *cache) markClass(number uint16) {
	for id := range c.tiers.here.held[number] {
		c.mark(pipeline.KindEndpoint, id)
	}
	if !c.mode.Bridged() {
		return
	}
	for id := range c.tiers.far.held[number] {
		c.mark(pipeline.KindEndpoint, id)
	}
}

// markFarRules marks the rules about endpoints of other nodes.
func (c *cache) markFarRules() {
	for class := range c.tiers.far.held {
		for rule := range c.tiers.about[class] {
			c.mark(pipeline.KindTierRule, rule)
		}
	}
}

func (c *cache) putPolicy(id string, value []byte, _ int64) error {
	var r mastercfg.K8sPolicy
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	var rules []pipeline.TierRule
	var names [][]string
	var excepts [][]except
	for i, wire := range r.Rules {
		rule, err := tierRule(id+"#"+strconv.Itoa(i), wire)
		if err != nil {
			return err
		}
		except, err := parseExcepts(wire.Excepts)
		if err != nil {
			return fmt.Errorf("exceptions of rule %s: %w", rule.ID, err)
		}
		rules, names, excepts = append(rules, rule), append(names, wire.Names), append(excepts, except)
	}
	c.removePolicy(id)
	for i, rule := range rules {
		rule.Number = c.tiers.numbers.of(rule, names[i], time.Now())
		c.setNames(rule.ID, names[i])
		if !rule.Out && len(rule.Nets) > 0 || slices.ContainsFunc(rule.Nets, netip.Prefix.IsSingleIP) {
			c.tiers.nodePeers[rule.ID] = excepts[i]
		}
		c.tiers.rules[rule.ID] = rule
		c.tiers.policyOf[id] = append(c.tiers.policyOf[id], rule.ID)
		for _, class := range rule.Subjects {
			if c.tiers.about[class] == nil {
				c.tiers.about[class] = make(map[string]struct{})
			}
			c.tiers.about[class][rule.ID] = struct{}{}
		}
		c.mark(pipeline.KindTierRule, rule.ID)
	}
	return nil
}

func (c *cache) removePolicy(id string) {
	for _, ruleID := range c.tiers.policyOf[id] {
		rule := c.tiers.rules[ruleID]
		for _, class := range rule.Subjects {
			if delete(c.tiers.about[class], ruleID); len(c.tiers.about[class]) == 0 {
				delete(c.tiers.about, class)
			}
		}
		c.tiers.numbers.leave(ruleID, time.Now())
		delete(c.tiers.rules, ruleID)
		c.setNames(ruleID, nil)
		delete(c.tiers.nodePeers, ruleID)
		c.mark(pipeline.KindTierRule, ruleID)
	}
	delete(c.tiers.policyOf, id)
}

// tierRule decodes a rule.
func tierRule(id string, r mastercfg.TierRule) (pipeline.TierRule, error) {
	verdicts := map[string]pipeline.Verdict{"accept": pipeline.Accept, "deny": pipeline.Deny, "pass": pipeline.Pass}
	verdict, known := verdicts[r.Verdict]
	switch {
	case !known:
		return pipeline.TierRule{}, fmt.Errorf("verdict %q of rule %s is none of accept, deny, pass", r.Verdict, id)
	case r.Tier < 0 || r.Tier > int(pipeline.LastTier):
		return pipeline.TierRule{}, fmt.Errorf("tier %d of rule %s is not in 0..%d", r.Tier, id, pipeline.LastTier)
	case r.Rank < 0 || r.Rank > int(pipeline.MaxRank):
		return pipeline.TierRule{}, fmt.Errorf("rank %d of rule %s is not in 0..%d", r.Rank, id, pipeline.MaxRank)
	}
	rule := pipeline.TierRule{ID: id, Tier: pipeline.Tier(r.Tier), Out: r.Out, Rank: uint16(r.Rank), Verdict: verdict,
		Subjects: r.Subjects, AnyPeer: r.Anyone(), AnyPod: r.AnyPod, Peers: r.Peers, Serving: r.Serving}
	var err error
	if rule.Nets, err = prefixes(r.Nets); err != nil {
		return rule, fmt.Errorf("peers of rule %s: %w", id, err)
	}
	for _, p := range r.Ports {
		rule.Ports = append(rule.Ports, pipeline.PortRange{Protocol: p.Protocol, First: p.First, Last: p.Last})
	}
	return rule, nil
}

func prefixes(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (c *cache) wantedTierRule(id string) (pipeline.Object, error) {
	rule, known := c.tiers.rules[id]
	if !known {
		return nil, fault.New(fault.NotFound, "rule %s is not known", id)
	}
	floods := rule.Out && c.mode.Bridged()
	if !slices.ContainsFunc(rule.Subjects, func(class uint16) bool { return c.tiers.here.have(class) || floods && c.tiers.far.have(class) }) {
		return nil, fault.New(fault.NotFound, "rule %s is about nobody on this node", id)
	}
	open, over := c.addressesFor(id)
	rule.Nets, rule.Begun = slices.Concat(rule.Nets, open, c.infraAddressesOfNodes(rule)), over
	return rule, nil
}

func (c *cache) putEpoch(_ string, value []byte, _ int64) error {
	var r mastercfg.K8sEpoch
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	c.setEpoch(r.Number)
	return nil
}

func (c *cache) removeEpoch(string) { c.setEpoch(0) }

func (c *cache) setEpoch(number uint32) {
	if number != c.tiers.epoch {
		c.tiers.epochs++
	}
	for _, lately := range []map[uint16]int{c.tiers.here.lately, c.tiers.far.lately} {
		for class, then := range lately {
			if c.tiers.epochs > then+1 { // the next epoch is that of the change itself
				delete(lately, class)
				for rule := range c.tiers.about[class] {
					c.mark(pipeline.KindTierRule, rule)
				}
			}
		}
	}
	c.tiers.epoch = number
	c.mark(pipeline.KindEpoch, pipeline.Epoch{}.Key().ID)
}

func (c *cache) wantedEpoch() (pipeline.Object, error) {
	if c.tiers.epoch == 0 {
		return nil, fault.New(fault.NotFound, "there are no policies")
	}
	return pipeline.Epoch{Number: c.tiers.epoch}, nil
}
