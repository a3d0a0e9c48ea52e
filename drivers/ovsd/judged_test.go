package ovsd_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Groups of the endpoints, and the protocol that rules match.
const (
	denied, allowed, target uint16 = 5, 6, 7
	icmp                    uint8  = 1
)

// judgements returns sets of rules that let one group reach the target and not the other: by rules of a high
// priority, by others of a low one and by addresses. All sets have the same verdicts; no rule is in two of them.
func judgements() [][]pipeline.Object {
	first := func(number byte) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 0, number}), 32)
	}
	sets := [][]pipeline.Rule{
		{{Priority: 20, SrcGroup: denied, DstGroup: target, Protocol: icmp}, {Priority: 10, DstGroup: target, Allow: true}},
		{{Priority: 2, DstGroup: target}, {Priority: 3, SrcGroup: allowed, DstGroup: target, Protocol: icmp, Allow: true}},
		{{Priority: 30, Src: first(2), DstGroup: target, Allow: true}, {Priority: 29, DstGroup: target, Protocol: icmp}},
	}
	var list [][]pipeline.Object
	for i, set := range sets {
		var rules []pipeline.Object
		for j, rule := range set {
			rule.ID = fmt.Sprintf("r%d.%d", i, j)
			rules = append(rules, rule)
		}
		for port := range uint16(6) { // only to make the change larger
			rules = append(rules, pipeline.Rule{ID: fmt.Sprintf("r%d.port%d", i, port), Priority: 15, DstGroup: target, Protocol: 6, DstPort: 80 + port, Allow: true})
		}
		list = append(list, rules)
	}
	return list
}

func TestPacketsAreJudgedRightWhileRulesChangeInManyBundles(t *testing.T) {
	n := newNode(t)
	n.chunk = 2
	r := n.start()
	var pods []*pod
	for i, group := range []uint16{denied, allowed, target} {
		p := n.newPod(r, byte(i+1))
		p.endpoint.Group = group
		pods = append(pods, p)
	}
	a, b, to := pods[0], pods[1], pods[2]
	r.give(everything(pods...))
	for _, p := range []*pod{a, b} { // without rules both can
		p.reaches(to.endpoint.IPv4.String())
	}
	all, at := judgements(), 0
	r.give(drivers.Change{Set: all[at]})
	eventually(t, "the switch has looked at its cached flows again", func() bool {
		return a.command("ping", "-c", "1", "-W", "1", to.endpoint.IPv4.String()).Run() != nil
	})
	done, summary := probe(t, a, to, 500)
	losesNothing(t, b, to, 3, func() {
		change := drivers.Change{}
		for _, rule := range all[at] {
			change.Remove = append(change.Remove, rule.Key())
		}
		at = (at + 1) % len(all)
		change.Set = all[at]
		r.give(change)
	})
	<-done
	if !strings.Contains(summary.String(), " 0 received") {
		t.Errorf("what was denied all the time: %s", summary)
	}
}
