// Package netpol has NetworkPolicies for tests, and an oracle for their meaning. It is independent of their
// enforcement and of Kubernetes' packages: the types are those of the API's documentation, in JSON.
package netpol

import "net/netip"

// World is the state that decides whether a connection is allowed.
type World struct {
	Namespaces map[string]map[string]string // labels by name
	Pods       []Pod
	Policies   []Policy
}

// Pod is a pod with its own network.
type Pod struct {
	Namespace, Name string
	Labels          map[string]string
	Ports           []ContainerPort // named ports
	Addresses       []netip.Addr    // at most one of each IP family
}

// ContainerPort is a named port of a pod.
type ContainerPort struct {
	Name          string `json:"name"`
	Protocol      string `json:"protocol"`
	ContainerPort int    `json:"containerPort"`
}

// Address returns the pod's address of an IP family; the zero value if it has none.
func (p Pod) Address(v6 bool) netip.Addr {
	for _, a := range p.Addresses {
		if a.Is6() == v6 {
			return a
		}
	}
	return netip.Addr{}
}

// Policy is a NetworkPolicy.
type Policy struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
}

// Metadata is the name of an object.
type Metadata struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Spec is the content of a policy. PolicyTypes are always set.
type Spec struct {
	PodSelector Selector  `json:"podSelector"`
	PolicyTypes []string  `json:"policyTypes"`
	Ingress     []Ingress `json:"ingress,omitempty"`
	Egress      []Egress  `json:"egress,omitempty"`
}

// Ingress is a rule for connections to the subjects.
type Ingress struct {
	From  []Peer `json:"from,omitempty"`
	Ports []Port `json:"ports,omitempty"`
}

// Egress is a rule for connections of the subjects.
type Egress struct {
	To    []Peer `json:"to,omitempty"`
	Ports []Port `json:"ports,omitempty"`
}

// Peer is a block of addresses, or pods.
type Peer struct {
	PodSelector       *Selector `json:"podSelector,omitempty"`
	NamespaceSelector *Selector `json:"namespaceSelector,omitempty"`
	IPBlock           *IPBlock  `json:"ipBlock,omitempty"`
}

// IPBlock is a range of addresses.
type IPBlock struct {
	CIDR   string   `json:"cidr"`
	Except []string `json:"except,omitempty"`
}

// Port is a port, a range of them, or all of a protocol.
type Port struct {
	Protocol string `json:"protocol,omitempty"`
	Port     any    `json:"port,omitempty"` // int or string
	EndPort  int    `json:"endPort,omitempty"`
}

// Selector selects by labels.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []Expression      `json:"matchExpressions,omitempty"`
}

// Expression is a condition on a label.
type Expression struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}
