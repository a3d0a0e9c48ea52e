package contivmodel

import "github.com/contiv/netplugin/utils/buildinfo"

// Status is how the cluster is doing, as its leader sees it.
type Status struct {
	Leader   string         `json:"leader"` // host:port; empty: nobody leads
	Epoch    int64          `json:"epoch"`
	Revision int64          `json:"revision"`
	Version  buildinfo.Info `json:"version"`
	Masters  []MasterStatus `json:"masters"`
	Nodes    []NodeStatus   `json:"nodes"`
	Store    StoreStatus    `json:"store"`
	Security string         `json:"security"`          // open, permissive or enforced; empty: the server does not tell
	Partial  bool           `json:"partial,omitempty"` // who asks is not told which netmasters, nodes and members of the store there are

	Services   *ServicesStatus   `json:"services,omitempty"`   // nil: there are none
	Kubernetes *KubernetesStatus `json:"kubernetes,omitempty"` // nil: others start containers
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
	Port       int    `json:"port,omitempty"` // of its REST server, where that is not the usual one, 9090
	VTEP       string `json:"vtep"`
	Version    string `json:"version"` // of the agent
	Endpoints  int    `json:"endpoints"`
	Registered bool   `json:"registered"`         // its agent is alive
	Joined     bool   `json:"joined,omitempty"`   // it is asked over TLS, by netmasters only
	MustJoin   bool   `json:"mustJoin,omitempty"` // it cannot renew its certificate, and has to join anew with a token
}

// StoreStatus is the database of the cluster.
type StoreStatus struct {
	Endpoints []string `json:"endpoints"`
	Healthy   bool     `json:"healthy"`            // a quorum answers
	Learners  []string `json:"learners,omitempty"` // members that have no vote yet
	Missing   []string `json:"missing,omitempty"`  // embedded members that do not answer that of the leader, or endpoints of another store
	Full      string   `json:"full,omitempty"`     // why nothing can be added; empty: there is room
}

// ServicesStatus is how many services of tenants there are, and which of them refuse.
type ServicesStatus struct {
	Count    int      `json:"count"`
	Unserved []string `json:"unserved"` // TENANT/NAME of those whose new connections nobody takes
}

// KubernetesStatus is how Kubernetes is served.
type KubernetesStatus struct {
	Problem  string              `json:"problem"`  // why it is not followed; empty: it is
	Waiting  int                 `json:"waiting"`  // objects that have changed, and are not written down yet
	Behind   int                 `json:"behind"`   // seconds since the first of them has
	Nodes    []string            `json:"nodes"`    // as Kubernetes knows them
	Services int                 `json:"services"` // with addresses
	Unserved []string            `json:"unserved"` // TENANT/NAMESPACE/NAME of services that nobody is behind
	Troubles []KubernetesTrouble `json:"troubles"`
	Untold   int                 `json:"untold"` // how many more there are
}

// KubernetesTrouble is what an object of Kubernetes asks for and does not get.
type KubernetesTrouble struct {
	Object  string `json:"object"` // kind and name: pod shop/web
	Reason  string `json:"reason"` // a word that programs know, as events have it
	Message string `json:"message"`
}
