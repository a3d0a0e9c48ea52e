package k8s

import (
	"cmp"
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// A NetworkPolicy has no status in the API. netmaster answers where it is in force, like the condition of a
// ClusterNetworkPolicy (clusterstatus.go).

// PolicyState is where a NetworkPolicy is in force.
type PolicyState struct {
	Tenant string       // tenant of its namespace
	Nodes  []PolicyNode // nodes with pods that it selects, or that receive what these flood, if it is about egress; by name
}

// PolicyNode is one of these nodes.
type PolicyNode struct {
	Name    string
	Tenants []string // tenants of the selected pods
	Lacks   string   // why its switch does not enforce the policy; empty: it does
}

// NetworkPolicy returns where a NetworkPolicy is in force; fault.NotFound if it does not exist.
func (c *Controller) NetworkPolicy(ctx context.Context, namespace, name string) (s PolicyState, err error) {
	p, id := c.policies, ofNetworkPolicy+namespace+"/"+name
	if !p.haveBegun() {
		return s, fault.New(fault.Unavailable, "netmaster does not know yet which policies Kubernetes has: try again in a moment")
	}
	policy, err := p.network.NetworkPolicies(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return s, fault.New(fault.NotFound, "network policy not found")
	}
	if err != nil {
		return s, err
	}
	if home, err := p.namespaces.Get(namespace); err == nil { // otherwise it was just deleted
		s.Tenant = tenantOfNamespace(home)
	}
	pods, err := p.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return s, err
	}
	nodes, err := p.readEnforced(ctx)
	if err != nil {
		return s, err
	}
	meaning, _ := networkPolicy(policy)
	tenants := map[string][]string{}
	var record mastercfg.K8sPolicy
	err = p.ledger.View(func(r ledger.Reader) error {
		record, err = ledger.Read[mastercfg.K8sPolicy](r, mastercfg.K8sPolicyPrefix+id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		floods, err := p.readFloods(r)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !isJudged(pod) || !meaning.Subject.Pods.Matches(pod.Labels) {
				continue
			}
			placed, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(pod.Spec.NodeName, uidOf(pod)))
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			if placed.Tenant == "" { // it is not placed, and does not start
				continue
			}
			nodes := map[string]struct{}{pod.Spec.NodeName: {}}
			if meaning.Out {
				maps.Copy(nodes, floods.heardBy(pod.Namespace, pod.Name, uidOf(pod)))
			}
			for on := range nodes {
				if !slices.Contains(tenants[on], placed.Tenant) {
					tenants[on] = append(tenants[on], placed.Tenant)
				}
			}
		}
		return nil
	})
	isWritten := record.Spec == classes.Fingerprint(meaning)
	for node, of := range tenants {
		one := PolicyNode{Name: node, Tenants: of, Lacks: "netmaster has not yet written what the policy says"}
		if isWritten {
			one.Lacks = whyNotEnforced(nodes[node], id, record.Epoch)
		}
		s.Nodes = append(s.Nodes, one)
	}
	slices.SortFunc(s.Nodes, func(a, b PolicyNode) int { return cmp.Compare(a.Name, b.Name) })
	return s, err
}

// haveBegun reports whether all initial policies are written.
func (p *policies) haveBegun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written != nil
}

// whyNotEnforced returns why a node does not enforce a policy that
// was written in an epoch, by the node's record; empty: it does.
func whyNotEnforced(said mastercfg.K8sEnforced, id string, epoch uint32) string {
	why, refused := said.Refused[id]
	switch {
	case said.Enforces(id, epoch):
		return ""
	case said.Number == 0:
		return "the node has not said yet which policies its switch has"
	case said.Number < epoch:
		return "its switch does not yet have what policies say since this one says what it says"
	case refused:
		return "its switch refuses rules of the policy: " + why
	}
	return "its switch refuses rules of so many policies that the node does not name all of them, and perhaps some of this one"
}
