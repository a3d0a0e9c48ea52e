package mastercfg

import (
	"net/netip"
	"slices"
	"time"
)

// K8sService is a service of Kubernetes as the pods of one tenant see it. The leader writes one for the tenant
// of its namespace and for each tenant with a pod behind it.
type K8sService struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	Addresses     []netip.Addr     `json:"addresses,omitempty"`    // cluster addresses, at most one of each IP family
	External      []netip.Addr     `json:"externalIPs,omitempty"`  // external addresses that its owner has set, ascending
	LoadBalancers []netip.Addr     `json:"loadBalancer,omitempty"` // addresses that a load balancer has assigned, ascending
	AtNodes       []netip.Addr     `json:"atNodes,omitempty"`      // likewise, but also addresses of nodes in Kubernetes: only the service's ports there belong to it, ascending
	SourceRanges  []netip.Prefix   `json:"sourceRanges,omitempty"` // clients that reach those of load balancers; none: all
	Ports         []K8sServicePort `json:"ports"`

	InternalLocal bool   `json:"internalLocal,omitempty"` // cluster addresses route to backends on the client's node only
	ExternalLocal bool   `json:"externalLocal,omitempty"` // clients from outside reach only backends on the node that they address
	HealthPort    uint16 `json:"healthPort,omitempty"`    // at which each node reports whether it has backends; 0: none
	Guest         bool   `json:"guest,omitempty"`         // hosts are served by the backends of another tenant
	Shared        bool   `json:"shared,omitempty"`        // pods of other tenants reach it, too
	Affinity      int    `json:"affinity,omitempty"`      // seconds for which a client keeps its backend; 0: not at all
}

// Reaches reports whether a service can be served at an address: it has a cluster address of the same IP family.
func (s K8sService) Reaches(a netip.Addr) bool {
	return slices.ContainsFunc(s.Addresses, func(own netip.Addr) bool { return own.Is4() == a.Is4() })
}

// Places counts the ports of a service at all its addresses. A node port counts once for each IP family.
func (s K8sService) Places() (n int) {
	for _, p := range s.Ports {
		n += len(s.Addresses) + len(s.External) + len(s.LoadBalancers) + len(s.AtNodes)
		if p.NodePort != 0 {
			n += len(s.Addresses)
		}
	}
	return n
}

// K8sServicePort is a port of a service.
type K8sServicePort struct {
	Name     string `json:"name,omitempty"` // at most one port of a service has none
	Protocol string `json:"protocol"`       // TCP, UDP or SCTP
	Port     uint16 `json:"port"`
	NodePort uint16 `json:"nodePort,omitempty"` // 0: none
}

// K8sBackend is an address behind a port of a service.
type K8sBackend struct {
	Address netip.AddrPort `json:"address"`
	Node    string         `json:"node,omitempty"` // empty: on none of the cluster's nodes
	Pod     string         `json:"pod,omitempty"`  // UID of its pod; empty: none

	Ready       bool `json:"ready,omitempty"`
	Serving     bool `json:"serving,omitempty"` // ready, apart from being about to end
	Terminating bool `json:"terminating,omitempty"`

	Until time.Time `json:"until,omitzero"` // when the connections of a removed backend end that nothing reports as alive

	ForNodes []string `json:"forNodes,omitempty"` // nodes whose clients it is meant for
	ForZones []string `json:"forZones,omitempty"` // zones, likewise
}

// K8sNode is a node of the cluster as Kubernetes knows it.
type K8sNode struct {
	Addresses []netip.Addr `json:"addresses,omitempty"` // internal ones, the primary one of each version of IP first
	Zone      string       `json:"zone,omitempty"`
	Leaving   bool         `json:"leaving,omitempty"` // it is being deleted: load balancers are to avoid it
}

// K8sServiceRanges are the addresses that services can have.
type K8sServiceRanges struct {
	Ranges []netip.Prefix `json:"ranges"` // ascending
}

// unnamed replaces the name of a port that has none; no name of a port begins with a hyphen.
const unnamed = "-"

// K8sServiceKey returns the key of a service for a tenant.
func K8sServiceKey(tenant, namespace, name string) string {
	return K8sServicePrefix + tenant + "/" + namespace + "/" + name
}

// K8sBackendsOf returns the prefix of the backends of a service.
func K8sBackendsOf(tenant, namespace, name string) string {
	return K8sBackendPrefix + tenant + "/" + namespace + "/" + name + "/"
}

// K8sBackendKey returns the key of a backend of a port.
func K8sBackendKey(tenant, namespace, name, port string, at netip.AddrPort) string {
	if port == "" {
		port = unnamed
	}
	return K8sBackendsOf(tenant, namespace, name) + port + "/" + at.String()
}

// K8sPortName returns the name of a port in a key.
func K8sPortName(inKey string) string {
	if inKey == unnamed {
		return ""
	}
	return inKey
}
