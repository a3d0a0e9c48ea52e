package agent

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// ruleNumbers assigns conjunction numbers to rules of tiers. The first number of a rule is a hash of its id, so
// that it is the same in every run, or the next free number.
//
// The switch may need several bundles to apply a change of a rule. Meanwhile it has flows of the old and the
// new form under one number, and would combine peers of one with ports of the other. So a rule that changes in
// more than one dimension, or in the number of its dimensions, gets another number: its new flows are complete
// before the old ones are removed. After a restart the rule has its first number again.
type ruleNumbers struct {
	taken   map[uint32]struct{}
	given   map[string]givenNumber // by id of the rule
	retired []retired              // in the order of their times
}

// givenNumber is the number of a rule, and the dimensions that have changed within settleTime.
type givenNumber struct {
	rule    pipeline.TierRule
	names   []string
	changed [ruleDimensions]bool
	at      time.Time // of the last change
	left    time.Time // when the rule was deleted; zero: it exists
}

// retired is a former number of a rule, or a deleted rule.
type retired struct {
	rule   string // the deleted rule; empty: a number
	number uint32
	at     time.Time
}

// ruleDimensions: a rule's subjects, peers, receivers, ports, and its verdict with place and direction.
const ruleDimensions = 5

// settleTime is the time after which the switch has all flows
// of a rule that were passed to it, unless it accepts none.
const settleTime = time.Minute

func newRuleNumbers() ruleNumbers {
	return ruleNumbers{taken: make(map[uint32]struct{}), given: make(map[string]givenNumber)}
}

// of returns the number of a rule in its present form; names are the domain names among its peers.
func (n *ruleNumbers) of(rule pipeline.TierRule, names []string, now time.Time) uint32 {
	n.forget(now)
	g, known := n.given[rule.ID]
	if !known {
		g = givenNumber{rule: pipeline.TierRule{Number: n.take(rule.ID)}}
	} else if changed, reshaped := compared(g, rule, names); reshaped || changed != ([ruleDimensions]bool{}) {
		if now.Sub(g.at) <= settleTime {
			changed = union(changed, g.changed)
		}
		if g.changed, g.at = changed, now; reshaped || several(changed) {
			n.retired = append(n.retired, retired{number: g.rule.Number, at: now})
			g = givenNumber{rule: pipeline.TierRule{Number: n.take(fmt.Sprintf("%s after %d", rule.ID, g.rule.Number))}}
		}
	}
	rule.Number = g.rule.Number
	n.given[rule.ID] = givenNumber{rule: rule, names: names, changed: g.changed, at: g.at}
	return rule.Number
}

// leave reserves the number of a deleted rule as long as the switch may have its flows.
func (n *ruleNumbers) leave(id string, now time.Time) {
	g := n.given[id]
	g.left = now
	n.given[id] = g
	n.retired = append(n.retired, retired{rule: id, at: now})
}

// forget frees numbers that were retired longer than settleTime ago.
func (n *ruleNumbers) forget(now time.Time) {
	for len(n.retired) > 0 && now.Sub(n.retired[0].at) > settleTime {
		r := n.retired[0]
		n.retired = n.retired[1:]
		if r.rule == "" {
			delete(n.taken, r.number)
		} else if g := n.given[r.rule]; g.left.Equal(r.at) { // otherwise the rule exists again
			delete(n.given, r.rule)
			delete(n.taken, g.rule.Number)
		}
	}
}

// take reserves a free number.
func (n *ruleNumbers) take(seed string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(seed)) // never fails, see hash.Hash
	number := h.Sum32()
	for {
		if _, taken := n.taken[number]; number != 0 && !taken {
			n.taken[number] = struct{}{}
			return number
		}
		number++
	}
}

// compared returns the dimensions in which a rule has changed, and whether the set of its dimensions has changed.
func compared(g givenNumber, now pipeline.TierRule, names []string) (changed [ruleDimensions]bool, reshaped bool) {
	before := g.rule
	for i, same := range [ruleDimensions]bool{
		slices.Equal(before.Subjects, now.Subjects),
		slices.Equal(before.Peers, now.Peers) && slices.Equal(before.Nets, now.Nets) && slices.Equal(g.names, names),
		slices.Equal(before.Serving, now.Serving),
		slices.Equal(before.Ports, now.Ports),
		before.Verdict == now.Verdict && before.Tier == now.Tier && before.Rank == now.Rank && before.Out == now.Out,
	} {
		changed[i] = !same
	}
	shape := func(r pipeline.TierRule) [4]bool {
		return [4]bool{r.AnyPeer, r.AnyPod, r.Serving == nil, r.Ports == nil}
	}
	return changed, shape(before) != shape(now)
}

func union(a, b [ruleDimensions]bool) [ruleDimensions]bool {
	for i := range a {
		a[i] = a[i] || b[i]
	}
	return a
}

// several reports whether more than one dimension has changed.
func several(changed [ruleDimensions]bool) bool {
	first := slices.Index(changed[:], true)
	return first >= 0 && slices.Contains(changed[first+1:], true)
}
