package contivmodel

import "github.com/contiv/netplugin/utils/buildinfo"

// Status is the health of the cluster, as its leader sees it.
type Status struct {
	Leader   string         `json:"leader"` // host:port; empty: no leader
	Epoch    int64          `json:"epoch"`
	Revision int64          `json:"revision"`
	Version  buildinfo.Info `json:"version"`
	Masters  []MasterStatus `json:"masters"`
	Nodes    []NodeStatus   `json:"nodes"`
	Store    StoreStatus    `json:"store"`
	Security string         `json:"security"`          // open, permissive or enforced; empty: not reported
	Partial  bool           `json:"partial,omitempty"` // netmasters, nodes and store members are omitted for this caller

	Services   *ServicesStatus   `json:"services,omitempty"`   // nil: there are none
	Kubernetes *KubernetesStatus `json:"kubernetes,omitempty"` // nil: other orchestrators start containers
}

// MasterStatus is a registered netmaster.
type MasterStatus struct {
	Address string `json:"address"`
	Role    string `json:"role"`
	Version string `json:"version"`
}

// NodeStatus is a host that has an agent or endpoints.
type NodeStatus struct {
	Host       string `json:"host"`
	Address    string `json:"address"`
	Port       int    `json:"port,omitempty"` // of its REST server, if not the default, 9090
	VTEP       string `json:"vtep"`
	Version    string `json:"version"` // of the agent
	Endpoints  int    `json:"endpoints"`
	Registered bool   `json:"registered"`         // its agent is running
	Joined     bool   `json:"joined,omitempty"`   // it is accessed over TLS, by netmasters only
	MustJoin   bool   `json:"mustJoin,omitempty"` // it cannot renew its certificate, and has to join anew with a token
}

// StoreStatus is the database of the cluster.
type StoreStatus struct {
	Endpoints []string `json:"endpoints"`
	Healthy   bool     `json:"healthy"`            // a quorum answers
	Learners  []string `json:"learners,omitempty"` // members without a vote yet
	Missing   []string `json:"missing,omitempty"`  // silent embedded members, or endpoints of another store
	Full      string   `json:"full,omitempty"`     // why nothing can be added; empty: there is space
}

// ServicesStatus counts the services of tenants, and lists those that refuse connections.
type ServicesStatus struct {
	Count    int      `json:"count"`
	Unserved []string `json:"unserved"` // TENANT/NAME of those without providers for new connections
}

// KubernetesStatus is the state of the integration with Kubernetes.
type KubernetesStatus struct {
	Problem  string              `json:"problem"`  // why it is not watched; empty: it is
	Waiting  int                 `json:"waiting"`  // changed objects that are not written to the store yet
	Behind   int                 `json:"behind"`   // seconds since the first of them changed
	Nodes    []string            `json:"nodes"`    // names in Kubernetes
	Services int                 `json:"services"` // with addresses
	Unserved []string            `json:"unserved"` // TENANT/NAMESPACE/NAME of services without backends
	Troubles []KubernetesTrouble `json:"troubles"`
	Untold   int                 `json:"untold"` // number of further troubles that are not listed
}

// KubernetesTrouble is a wish of a Kubernetes object that is not met.
type KubernetesTrouble struct {
	Object  string `json:"object"` // kind and name: pod shop/web
	Reason  string `json:"reason"` // a word for programs, as in events
	Message string `json:"message"`
}
