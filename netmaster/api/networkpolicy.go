package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// NetworkPolicy lists where a Kubernetes NetworkPolicy is in force.
type NetworkPolicy struct {
	Tenant string              // tenant of its namespace
	Nodes  []NetworkPolicyNode // nodes with pods that it selects, or that receive what these flood, if it is about egress; by name
}

// NetworkPolicyNode is one of these nodes.
type NetworkPolicyNode struct {
	Name    string
	Tenants []string // tenants of the selected pods
	Lacks   string   // why its switch does not enforce the policy; empty: it does
}

// errNoNetworkPolicy is returned for policies that do not exist, and for those that the caller may not see.
var errNoNetworkPolicy = fault.New(fault.NotFound, "network policy not found")

// TellNetworkPolicies sets the source of inspections. For an unknown policy it returns fault.NotFound.
func (a *API) TellNetworkPolicies(tell func(ctx context.Context, namespace, name string) (NetworkPolicy, error)) {
	a.policies.Store(&tell)
}

// inspectNetworkPolicy answers on which nodes a NetworkPolicy, NAMESPACE:NAME, is
// in force. A caller that may read a tenant sees the policies of its namespaces,
// and those that select pods of it; of the nodes it sees those with such pods.
func (a *API) inspectNetworkPolicy(r *http.Request) (rest.Reply, error) {
	key := mux.Vars(r)["key"]
	namespace, name, _ := strings.Cut(key, ":")
	tell := a.policies.Load()
	if tell == nil {
		return rest.Reply{}, errNoNetworkPolicy
	}
	policy, err := (*tell)(r.Context(), namespace, name)
	if fault.Is(err, fault.NotFound) {
		return rest.Reply{}, errNoNetworkPolicy
	}
	if err != nil {
		return rest.Reply{}, err
	}
	if err := a.ledger.View(func(reader ledger.Reader) error {
		tenants, all, err := auth.CallerFrom(r.Context()).Visible(reader, rights.RunTime)
		if err == nil && !all {
			policy, err = policy.cut(tenants)
		}
		return err
	}); err != nil {
		return rest.Reply{}, err
	}
	return rest.Reply{Body: contivmodel.NetworkPolicyInspect{Oper: policy.oper(key)}}, nil
}

// cut returns the part that a caller sees that may read some tenants only.
func (p NetworkPolicy) cut(tenants []string) (NetworkPolicy, error) {
	seen := NetworkPolicy{Tenant: p.Tenant}
	for _, n := range p.Nodes {
		if slices.ContainsFunc(n.Tenants, func(t string) bool { return slices.Contains(tenants, t) }) {
			seen.Nodes = append(seen.Nodes, n)
		}
	}
	if len(seen.Nodes) == 0 && !slices.Contains(tenants, p.Tenant) {
		return seen, errNoNetworkPolicy
	}
	return seen, nil
}

func (p NetworkPolicy) oper(key string) contivmodel.NetworkPolicyOper {
	oper := contivmodel.NetworkPolicyOper{Key: key, Nodes: []string{}, Missing: []contivmodel.NetworkPolicyMissing{}}
	for _, n := range p.Nodes {
		oper.Nodes = append(oper.Nodes, n.Name)
		if n.Lacks != "" {
			oper.Missing = append(oper.Missing, contivmodel.NetworkPolicyMissing{Node: n.Name, Why: n.Lacks})
		}
	}
	oper.Realised = fmt.Sprintf("on %d of %d nodes", len(oper.Nodes)-len(oper.Missing), len(oper.Nodes))
	return oper
}
