package contivmodel

// NetworkPolicySegment is the route segment of NetworkPolicies of Kubernetes, which can only be inspected,
// as NAMESPACE:NAME.
const NetworkPolicySegment = "networkPolicies"

// NetworkPolicyOper describes where a NetworkPolicy of Kubernetes is in force.
type NetworkPolicyOper struct {
	Key      string                 `json:"key"`      // NAMESPACE:NAME
	Realised string                 `json:"realised"` // such as: on 1 of 2 nodes
	Nodes    []string               `json:"nodes"`    // with selected pods; if it is about egress, in forwarding mode bridge, also those that receive what these flood
	Missing  []NetworkPolicyMissing `json:"missing"`  // those whose switches do not implement it completely
}

// NetworkPolicyMissing is a node whose switch does not implement a NetworkPolicy completely.
type NetworkPolicyMissing struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// NetworkPolicyInspect is the response of inspect for a NetworkPolicy.
type NetworkPolicyInspect struct {
	Oper NetworkPolicyOper
}
