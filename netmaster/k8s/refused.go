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

// tellRefused tells of policies that switches of nodes refuse, and of those that none refuses any more.
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
	if message == "" {
		r.event(policy, corev1.EventTypeNormal, isEnforced, "Enforce", "no node refuses rules of it any more")
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
