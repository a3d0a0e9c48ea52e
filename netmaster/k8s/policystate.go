package k8s

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// A NetworkPolicy has no status in the API. Who asks netmaster is told where it is in force, as the condition of a
// ClusterNetworkPolicy says (clusterstatus.go).

// PolicyState is where a NetworkPolicy counts.
type PolicyState struct {
	Tenant string       // of its namespace
	Nodes  []PolicyNode // with pods that it selects, by name
}

// PolicyNode is one of them.
type PolicyNode struct {
	Name    string
	Tenants []string // of these pods
	Lacks   string   // why its switch does not do what the policy says; empty: it does
}

// NetworkPolicy tells where a NetworkPolicy counts. One that is not there is a fault.NotFound.
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
	if home, err := p.namespaces.Get(namespace); err == nil { // else it has just gone
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
		for _, pod := range pods {
			if !isJudged(pod) || !meaning.Subject.Pods.Matches(pod.Labels) {
				continue
			}
			placed, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(pod.Spec.NodeName, uidOf(pod)))
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			if on := pod.Spec.NodeName; placed.Tenant != "" && !slices.Contains(tenants[on], placed.Tenant) { // else it has no place, and does not start
				tenants[on] = append(tenants[on], placed.Tenant)
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

// haveBegun tells whether everything that there was in the beginning is written.
func (p *policies) haveBegun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written != nil
}

// whyNotEnforced returns why a node does not enforce a policy that was written in an epoch, by the node's record; empty: it does.
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
