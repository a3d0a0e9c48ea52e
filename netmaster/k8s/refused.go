package k8s

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Reasons of events about policies of which a switch does not do what they say, and does it at last.
const (
	notEnforced = "PolicyNotEnforced"
	isEnforced  = "PolicyEnforced"
)

// tellRefused tells of policies that switches of nodes refuse, and of those that none refuses any more: each node
// that did has said so since. Of one that says nothing nothing is known.
func (r *reports) tellRefused(nodes map[string]mastercfg.K8sEnforced) {
	now := refusals(nodes)
	for id := range r.refused {
		if now[id] == "" {
			r.tellOne(id, "")
		}
	}
	for id, message := range now {
		r.tellOne(id, message) // again, as another policy may have this name now
	}
	r.tellRecovered(nodes)
	if slices.ContainsFunc(slices.Collect(maps.Values(nodes)), func(n mastercfg.K8sEnforced) bool { return n.More }) {
		clear(r.done) // any of them may be refused
	}
	r.refused = now
}

// tellOne tells about one policy; an empty message: it is not refused any more.
func (r *reports) tellOne(id, message string) {
	delete(r.done, strings.TrimPrefix(id, ofClusterPolicy))
	policy, err := r.policy(id)
	if err != nil {
		r.warnings.gone(id)
		return
	}
	r.warn(policy, id, notEnforced, "Enforce", message)
}

// tellRecovered remembers which nodes refuse what, and tells of policies that the last of them does not refuse any more.
func (r *reports) tellRecovered(nodes map[string]mastercfg.K8sEnforced) {
	for node, said := range nodes {
		for id := range said.Refused {
			if r.refusing[id] == nil {
				r.refusing[id] = map[string]struct{}{}
			}
			r.refusing[id][node] = struct{}{}
		}
	}
	for id, by := range r.refusing {
		maps.DeleteFunc(by, func(node string, _ struct{}) bool {
			said, there := nodes[node]
			_, refused := said.Refused[id]
			return there && !refused && !said.More
		})
		policy, err := r.policy(id)
		if err == nil && len(by) == 0 {
			r.event(policy, corev1.EventTypeNormal, isEnforced, "Enforce", "no node refuses rules of it any more")
		}
		if err != nil || len(by) == 0 {
			delete(r.refusing, id)
		}
	}
}

// refusals are sentences about the policies that switches refuse, by policy.
func refusals(nodes map[string]mastercfg.K8sEnforced) map[string]string {
	by := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		for id := range nodes[node].Refused {
			by[id] = append(by[id], node)
		}
	}
	all := map[string]string{}
	for id, on := range by {
		where := on[0]
		if len(on) > 1 {
			where += " and others" // not how many: another number would be another event
		}
		all[id] = fmt.Sprintf("not all of it is in force on %s: %s", where, nodes[on[0]].Refused[id])
	}
	return all
}
