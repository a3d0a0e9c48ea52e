package contivmodel

// NetworkPolicySegment is the route segment of NetworkPolicies of Kubernetes, which can only be inspected, as NAMESPACE:NAME.
const NetworkPolicySegment = "networkPolicies"

// NetworkPolicyOper is where a NetworkPolicy of Kubernetes is in force.
type NetworkPolicyOper struct {
	Key      string                 `json:"key"`      // NAMESPACE:NAME
	Realised string                 `json:"realised"` // such as: on 1 of 2 nodes
	Nodes    []string               `json:"nodes"`    // with pods that it selects
	Missing  []NetworkPolicyMissing `json:"missing"`  // those of them whose switches do not do what it says
}

// NetworkPolicyMissing is a node whose switch does not do what a NetworkPolicy says.
type NetworkPolicyMissing struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// NetworkPolicyInspect answers inspection of a NetworkPolicy.
type NetworkPolicyInspect struct {
	Oper NetworkPolicyOper
}
