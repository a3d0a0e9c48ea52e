package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// updateClusterPolicy sets or removes a ClusterNetworkPolicy in the engine.
func (p *policies) updateClusterPolicy(name string) error {
	key := ofClusterPolicy + name
	policy, err := p.cluster.get(name)
	if apierrors.IsNotFound(err) {
		p.engine.RemovePolicy(key)
		p.warnings.clear(key)
		delete(p.clusterSpecs, name)
		p.ranked(name, nil)
		return nil
	}
	if err != nil {
		return err
	}
	doubts := p.translate(policy)
	p.warn(policy, key, "PolicyUnsupported", "Translate", strings.Join(doubts, "; "))
	p.warn(policy, key, equalPriority, "Translate", p.samePriority(policy))
	p.ranked(name, &rank{policy.Spec.Tier, policy.Spec.Priority})
	return nil
}

// equalPriority is the reason of events about policies with the same priority.
const equalPriority = "EqualPriority"

// rank is the place of a ClusterNetworkPolicy in the order of evaluation.
type rank struct {
	tier     v1alpha2.Tier
	priority int32
}

// ranked records the rank of a policy; nil: it was deleted. The warnings of other
// policies with this rank or the former one change with it; events are only written
// for the policy that has changed. A new leader reports each of them anyway.
func (p *policies) ranked(name string, now *rank) {
	before, was := p.ranks[name]
	if was && now != nil && before == *now {
		return
	}
	delete(p.ranks, name)
	if p.written != nil {
		for _, other := range p.cluster.list() {
			at, told := p.ranks[other.Name]
			if told && (was && at == before || now != nil && at == *now) {
				p.warnings.set(ofClusterPolicy+other.Name, other.UID, equalPriority, p.samePriority(other))
			}
		}
	}
	if now != nil {
		p.ranks[name] = *now
	}
}

// translate sets a policy in the engine, and returns the parts that were not understood.
func (p *policies) translate(policy *v1alpha2.ClusterNetworkPolicy) (doubts []string) {
	meaning, doubts := clusterNetworkPolicy(policy, p.addressesOf)
	if meaning == nil {
		p.engine.RemovePolicy(ofClusterPolicy + policy.Name)
	} else {
		p.engine.SetPolicy(ofClusterPolicy+policy.Name, *meaning)
	}
	p.clusterSpecs[policy.Name] = specOf(policy)
	return doubts
}

// samePriority names other policies with the same priority; empty: none. The API does not define their order.
func (p *policies) samePriority(policy *v1alpha2.ClusterNetworkPolicy) string {
	var names []string
	for _, other := range p.cluster.list() {
		if other.Name != policy.Name && other.Spec.Tier == policy.Spec.Tier && other.Spec.Priority == policy.Spec.Priority {
			names = append(names, other.Name)
		}
	}
	if names == nil {
		return ""
	}
	slices.Sort(names)
	const some = 5
	if more := len(names) - some; more > 0 {
		names = append(names[:some], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s of tier %s have priority %d, too: they are asked in the order of their names; to choose another order, give each a priority of its own", strings.Join(names, ", "), policy.Spec.Tier, policy.Spec.Priority)
}

// updateNodes updates the policies with nodes as peers in the engine.
func (p *policies) updateNodes() {
	for _, policy := range p.cluster.list() {
		if slices.ContainsFunc(policy.Spec.Egress, namesNodes) {
			p.translate(policy)
		}
	}
}

func namesNodes(r v1alpha2.ClusterNetworkPolicyEgressRule) bool {
	return slices.ContainsFunc(r.To, func(p v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return p.Nodes != nil })
}

// addressesOf lists the addresses of the nodes that a selector matches, sorted, without duplicates.
func (p *policies) addressesOf(which labels.Selector) (all []netip.Prefix, err error) {
	nodes, err := p.nodes.List(which)
	for _, n := range nodes {
		for _, a := range n.Status.Addresses { // some are names
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				all = append(all, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all), err
}
