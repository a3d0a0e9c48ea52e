// Package netpol has NetworkPolicies for tests, and an oracle that says what they
// mean. It knows nothing of how they are enforced, and none of Kubernetes' packages: the
// types are what the API's documentation has, in JSON.
package netpol

import "net/netip"

// World is what a connection depends on.
type World struct {
	Namespaces map[string]map[string]string // labels by name
	Pods       []Pod
	Policies   []Policy
}

// Pod is one with a network of its own.
type Pod struct {
	Namespace, Name string
	Labels          map[string]string
	Ports           []ContainerPort // those with names
	Addresses       []netip.Addr    // at most one of each version of IP
}

// ContainerPort is a port of a pod that has a name.
type ContainerPort struct {
	Name          string `json:"name"`
	Protocol      string `json:"protocol"`
	ContainerPort int    `json:"containerPort"`
}

// Address is the pod's address of the version of IP; none: the zero value.
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

// Metadata is what an object is called.
type Metadata struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Spec is what a policy says. PolicyTypes are always there.
type Spec struct {
	PodSelector Selector  `json:"podSelector"`
	PolicyTypes []string  `json:"policyTypes"`
	Ingress     []Ingress `json:"ingress,omitempty"`
	Egress      []Egress  `json:"egress,omitempty"`
}

// Ingress is a rule about connections to the subjects.
type Ingress struct {
	From  []Peer `json:"from,omitempty"`
	Ports []Port `json:"ports,omitempty"`
}

// Egress is a rule about connections of the subjects.
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
