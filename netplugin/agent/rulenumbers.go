package agent

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// ruleNumbers gives rules of tiers the numbers of their conjunctions. The first number of a rule is a hash of its id, so that it is
// the same in every run, or if that is taken the next one that is not.
//
// What changes of a rule may take the switch several bundles. Meanwhile it has flows of both under one number, and peers
// of the one would have the ports of the other. So a rule that has changed in more than one of its dimensions, or in how many
// it has, gets another number: its flows are complete before those of the former number go. The next run gives it the first one again.
type ruleNumbers struct {
	taken   map[uint32]struct{}
	given   map[string]givenNumber // by id of the rule
	retired []retired              // in the order of their times
}

// givenNumber is the number of a rule, and what has changed since it was given, if that was within settleTime.
type givenNumber struct {
	rule    pipeline.TierRule
	names   []string
	changed [ruleDimensions]bool
	at      time.Time // of the last change
	left    time.Time // when the rule went; zero: it is there
}

// retired is a number that no rule has any more, or a rule that is gone.
type retired struct {
	rule   string // a rule that is gone; empty: a number
	number uint32
	at     time.Time
}

// Dimensions of a rule: its subjects, peers, receivers and ports, and what it says of them.
const ruleDimensions = 5

// settleTime is when the switch has taken all flows of a rule that were given to it, unless it takes none.
const settleTime = time.Minute

func newRuleNumbers() ruleNumbers {
	return ruleNumbers{taken: make(map[uint32]struct{}), given: make(map[string]givenNumber)}
}

// of is the number of a rule as it is now, with the names of domains among its peers.
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

// forget frees what was retired long enough ago.
func (n *ruleNumbers) forget(now time.Time) {
	for len(n.retired) > 0 && now.Sub(n.retired[0].at) > settleTime {
		r := n.retired[0]
		n.retired = n.retired[1:]
		if r.rule == "" {
			delete(n.taken, r.number)
		} else if g := n.given[r.rule]; g.left.Equal(r.at) { // else it has come back
			delete(n.given, r.rule)
			delete(n.taken, g.rule.Number)
		}
	}
}

// take finds a number that nothing has.
func (n *ruleNumbers) take(seed string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(seed)) // never fails, as hash.Hash promises
	number := h.Sum32()
	for {
		if _, taken := n.taken[number]; number != 0 && !taken {
			n.taken[number] = struct{}{}
			return number
		}
		number++
	}
}

// compared returns the dimensions in which a rule differs from before, and whether it has other dimensions.
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

// several tells whether more than one dimension has changed.
func several(changed [ruleDimensions]bool) bool {
	first := slices.Index(changed[:], true)
	return first >= 0 && slices.Contains(changed[first+1:], true)
}
