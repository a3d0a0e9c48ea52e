package k8s

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Reasons of events about policies that a switch does not enforce, and enforces again.
const (
	notEnforced = "PolicyNotEnforced"
	isEnforced  = "PolicyEnforced"
)

// reportRefused reports policies that switches of nodes refuse, and those that no switch refuses any more: each
// node that did has reported otherwise since. A node without a report may still refuse.
func (r *reports) reportRefused(ctx context.Context, nodes map[string]mastercfg.K8sEnforced) error {
	upToDate, err := r.withoutReplaced(nodes)
	if err != nil {
		return err
	}
	now := refusals(upToDate)
	for id := range r.refused {
		if now[id] == "" {
			r.reportOne(id, "")
		}
	}
	maps.DeleteFunc(r.toldOf, func(id string, _ types.UID) bool { return !refusedByAny(id, nodes) })
	for id, message := range now {
		r.reportOne(id, message) // again, as another policy may have this name now
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(nodes)), func(n mastercfg.K8sEnforced) bool { return n.More }) {
		clear(r.done) // any of them may be refused
	}
	r.refused = now
	return r.reportRecovered(ctx, nodes)
}

// reportOne reports one policy that switches refuse; an empty message: none refuses it any more.
func (r *reports) reportOne(id, message string) {
	delete(r.done, strings.TrimPrefix(id, ofClusterPolicy))
	policy, err := r.policy(id)
	if err != nil {
		r.warnings.clear(id)
		return
	}
	if message != "" {
		r.toldOf[id] = uidOfPolicy(policy)
	}
	r.warn(policy, id, notEnforced, "Enforce", message)
}

func uidOfPolicy(policy runtime.Object) types.UID {
	named, err := meta.Accessor(policy)
	if err != nil {
		return "" // it does not exist
	}
	return named.GetUID()
}

// withoutReplaced returns the nodes' records without refusals that were reported for a policy which was deleted
// and recreated since: they are not about the policy that has the name now, until a node reports on that
// policy's rules. A reported refusal stays while the rules of the same policy change.
func (r *reports) withoutReplaced(nodes map[string]mastercfg.K8sEnforced) (all map[string]mastercfg.K8sEnforced, err error) {
	all = maps.Clone(nodes)
	err = r.ledger.View(func(state ledger.Reader) error {
		for node, said := range nodes {
			said.Refused = maps.Clone(said.Refused)
			for id := range said.Refused {
				before, told := r.toldOf[id]
				policy, err := r.policy(id)
				if err != nil || !told || before == uidOfPolicy(policy) {
					continue
				}
				record, err := ledger.Read[mastercfg.K8sPolicy](state, mastercfg.K8sPolicyPrefix+id)
				if err != nil && !fault.Is(err, fault.NotFound) {
					return err
				}
				if err != nil || said.Number < record.Epoch {
					delete(said.Refused, id)
				}
			}
			all[node] = said
		}
		return nil
	})
	return all, err
}

// reportRecovered records in the store which nodes refuse which policies, and reports policies that no node refuses any more.
// It reports before it removes the record: if a leader ends in between, the next one reports again.
func (r *reports) reportRecovered(ctx context.Context, nodes map[string]mastercfg.K8sEnforced) error {
	before, err := r.refusedBefore()
	if err != nil {
		return err
	}
	now := map[string][]string{}
	for node, said := range nodes {
		for id := range said.Refused {
			now[id] = append(now[id], node)
		}
	}
	for id, by := range before {
		for _, node := range by {
			if !slices.Contains(now[id], node) && r.mayRefuse(node, nodes) {
				now[id] = append(now[id], node)
			}
		}
		if len(now[id]) > 0 {
			delete(r.recovered, id)
		} else if policy, err := r.policy(id); err == nil && !r.recovered[id] {
			r.event(policy, corev1.EventTypeNormal, isEnforced, "Enforce", "no node refuses rules of it any more")
			r.recovered[id] = true // only once, even if the following write fails repeatedly
		}
	}
	for id, by := range now {
		slices.Sort(by)
		if _, err := r.policy(id); err != nil {
			delete(now, id) // a deleted policy has no record
		}
	}
	if maps.EqualFunc(before, now, slices.Equal) {
		return nil
	}
	_, err = r.ledger.Update(ctx, func(tx *ledger.Tx) error {
		for id, by := range now {
			if slices.Equal(by, before[id]) {
				continue
			}
			if err := ledger.Write(tx, mastercfg.K8sRefusedPrefix+id, mastercfg.K8sRefused{Nodes: by}); err != nil {
				return err
			}
		}
		for id := range before {
			if now[id] == nil {
				tx.Delete(mastercfg.K8sRefusedPrefix + id)
			}
		}
		return nil
	})
	if err == nil {
		clear(r.recovered)
	}
	return err
}

// refusedBefore returns, by policy, the nodes that refused it at the
// last report, and have not reported since that they enforce it.
func (r *reports) refusedBefore() (by map[string][]string, err error) {
	by = map[string][]string{}
	err = r.ledger.View(func(state ledger.Reader) error {
		return ledger.ReadEach(state, mastercfg.K8sRefusedPrefix, func(key string, record mastercfg.K8sRefused) error {
			by[strings.TrimPrefix(key, mastercfg.K8sRefusedPrefix)] = record.Nodes
			return nil
		})
	})
	return by, err
}

// mayRefuse reports whether a node that does not name a policy may still refuse it: it names only some, or it is
// in the cluster and has not reported.
func (r *reports) mayRefuse(node string, nodes map[string]mastercfg.K8sEnforced) bool {
	if said, there := nodes[node]; there && said.Number != 0 {
		return said.More
	}
	_, err := r.nodes.Get(node)
	return !apierrors.IsNotFound(err)
}

func refusedByAny(id string, nodes map[string]mastercfg.K8sEnforced) bool {
	for _, said := range nodes {
		if _, refused := said.Refused[id]; refused {
			return true
		}
	}
	return false
}

// refusals returns a sentence for each policy that switches refuse.
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
			where += " and others" // without their number: another number would be another event
		}
		all[id] = fmt.Sprintf("not all of it is in force on %s: %s", where, nodes[on[0]].Refused[id])
	}
	return all
}
