package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/classes"
)

// tellCluster tells the engine what has become of a ClusterNetworkPolicy.
func (p *policies) tellCluster(name string) error {
	policy, err := p.cluster.get(name)
	if apierrors.IsNotFound(err) {
		p.engine.RemovePolicy(ofClusterPolicy + name)
		delete(p.said, name) // another of its name is another
		p.warnings.over(ofClusterPolicy + name)
		return nil
	}
	if err != nil {
		return err
	}
	meaning, doubts := clusterNetworkPolicy(policy, p.addressesOf)
	p.engine.SetPolicy(ofClusterPolicy+name, meaning)
	p.say(policy, "PolicyUnsupported", strings.Join(doubts, "; "))
	p.say(policy, "EqualPriority", p.equals(policy))
	return nil
}

// equals tells of other policies that have a policy's priority. Which of them is asked first the API leaves open.
func (p *policies) equals(policy *v1alpha2.ClusterNetworkPolicy) string {
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
	return fmt.Sprintf("%s of tier %s have priority %d, too: they are asked in the order of their names", strings.Join(names, ", "), policy.Spec.Tier, policy.Spec.Priority)
}

// sayTooLarge tells of policies that were written and deny what they do not say.
func (p *policies) sayTooLarge(changes classes.Changes) {
	for id := range changes.Policies {
		name, ours := strings.CutPrefix(id, ofClusterPolicy)
		if policy, err := p.cluster.get(name); ours && err == nil {
			p.say(policy, "PolicyTooLarge", changes.TooLarge[id])
		}
	}
}

// say makes an event about a policy, unless the last one of that reason said the same; "":
// there is no reason any more.
func (p *policies) say(policy *v1alpha2.ClusterNetworkPolicy, reason, note string) {
	if p.said[policy.Name][reason] == note {
		return
	}
	if p.said[policy.Name] == nil {
		p.said[policy.Name] = map[string]string{}
	}
	p.warnings.over(ofClusterPolicy+policy.Name, reason)
	if p.said[policy.Name][reason] = note; note != "" {
		p.warn(policy, reason, note)
	}
}

// tellNodes tells it what has become of nodes, for policies of which they are peers.
func (p *policies) tellNodes() error {
	for _, policy := range p.cluster.list() {
		if slices.ContainsFunc(policy.Spec.Egress, namesNodes) {
			meaning, _ := clusterNetworkPolicy(policy, p.addressesOf)
			p.engine.SetPolicy(ofClusterPolicy+policy.Name, meaning)
		}
	}
	return nil
}

func namesNodes(r v1alpha2.ClusterNetworkPolicyEgressRule) bool {
	return slices.ContainsFunc(r.To, func(p v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return p.Nodes != nil })
}

// addressesOf lists the addresses of the nodes that a selector finds, each once, in order.
func (p *policies) addressesOf(which labels.Selector) (all []netip.Prefix, err error) {
	nodes, err := p.nodes.List(which)
	for _, n := range nodes {
		for _, a := range n.Status.Addresses { // names are among them
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				all = append(all, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all), err
}
