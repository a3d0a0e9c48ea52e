package mastercfg

import (
	"fmt"
	"net/netip"
	"strings"
)

// Labels of containers, and of namespaces of Kubernetes, that assign them to a tenant, network and group.
const (
	TenantLabel  = "io.contiv.tenant"
	NetworkLabel = "io.contiv.network"
	GroupLabel   = "io.contiv.net-group"
)

// Annotations of pods of Kubernetes that request addresses.
const (
	IPv4Annotation = "io.contiv.ip"
	IPv6Annotation = "io.contiv.ipv6"
)

// ProfileAnnotation of a pod of Kubernetes, or of its namespace, names the pod's profile, which replaces that of its
// group.
const ProfileAnnotation = "io.contiv.netprofile"

// SharedAnnotation of a service of Kubernetes is "true" if pods of all tenants are to reach it, which
// its namespace has to allow.
const SharedAnnotation = "io.contiv.shared"

// The tenant and network of a container without labels; it has no group then.
const (
	DefaultTenant  = "default"
	DefaultNetwork = "default-net"
)

// EndpointsOfTenant is how many endpoints a tenant may have if no operator has set a bound; DefaultTenant has none
// then.
const EndpointsOfTenant = 4096

// AccessNetwork is the infra network through which a host reaches the others of its tenant.
const AccessNetwork = "contivh1"

// Reasons of events about pods for which there is no address.
const (
	PoolExhausted = "PoolExhausted" // no free address in the network, or in the range of the group
	TenantFull    = "TenantFull"    // the tenant has as many endpoints as it may have
)

// K8sPod is where a pod of Kubernetes belongs, or why it is refused. The leader writes it as soon as the pod is
// bound to a node, so that agents need no credentials for the API server. While the pod lives only its group,
// class, profile and bandwidth may change.
type K8sPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"` // by which kubelet knows the pod

	Tenant  string `json:"tenant,omitempty"`
	Network string `json:"network,omitempty"`
	Group   string `json:"group,omitempty"` // empty: none

	// Requested addresses; invalid: any.
	IPv4 netip.Addr `json:"ipv4,omitzero"`
	IPv6 netip.Addr `json:"ipv6,omitzero"`

	// Grace is how many seconds the pod may run after it is deleted from the API server; 0: unknown, as for
	// static pods, which run on without their mirror pods.
	Grace int64 `json:"grace,omitempty"`

	HostPorts []HostPort `json:"hostPorts,omitempty"` // of all its containers, sidecars included

	// Probed is set if kubelet sends probes or lifecycle hooks to the pod's address.
	Probed bool `json:"probed,omitempty"`

	// Bandwidth limits in bit/s; 0: those of its group. May change, too.
	Ingress int64 `json:"ingress,omitempty"`
	Egress  int64 `json:"egress,omitempty"`

	// Profile is the one that the pod or its namespace requests; without a name, that of its group applies. May
	// change, too.
	Profile K8sProfile `json:"profile,omitzero"`

	// Class is the pod's class in policies; 0: no policy selects it. While it is unknown (Classed is
	// false), the pod is isolated.
	Class   uint16 `json:"class,omitempty"`
	Classed bool   `json:"classed,omitempty"`

	// Why the pod is refused: a reason for programs, as in events, and a message for users. Empty: it is not.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	// What was requested after the pod was placed, and cannot take effect while it lives.
	Later string `json:"later,omitempty"`
}

// Pod returns the pod's namespace and name.
func (p K8sPod) Pod() string { return p.Namespace + "/" + p.Name }

// K8sProfile is a profile of a pod's tenant, with its values.
type K8sProfile struct {
	Name      string `json:"name"`
	Bandwidth string `json:"bandwidth,omitempty"`
	DSCP      int    `json:"DSCP,omitempty"`
	Burst     int    `json:"burst,omitempty"`
}

// HostPort is a port of a pod's node that is forwarded to the pod.
type HostPort struct {
	Address  netip.Addr `json:"address,omitzero"` // of the node; invalid: all of them
	Protocol string     `json:"protocol"`         // tcp, udp or sctp
	Port     uint16     `json:"port"`             // of the node
	To       uint16     `json:"to"`               // of the pod
}

// String returns the host port as in messages, such as udp 192.0.2.1:53.
func (p HostPort) String() string {
	if p.Address.IsValid() {
		return p.Protocol + " " + netip.AddrPortFrom(p.Address, p.Port).String()
	}
	return fmt.Sprintf("%s port %d", p.Protocol, p.Port)
}

// Clashes reports whether a packet may match both.
func (p HostPort) Clashes(with HostPort) bool {
	return p.SamePlace(with) || p.Protocol == with.Protocol && p.Port == with.Port && (!p.Address.IsValid() || !with.Address.IsValid())
}

// SamePlace reports whether both are the same port at the same address, or both at all addresses.
func (p HostPort) SamePlace(as HostPort) bool {
	return p.Protocol == as.Protocol && p.Port == as.Port && p.Address == as.Address
}

// K8sPodKey returns the key of a pod's record on a node.
func K8sPodKey(node, uid string) string { return K8sPodPrefix + node + "/" + uid }

// IsHash reports whether a text may be a hash, as kubelet's UIDs of static pods and container ids are. The UIDs
// of an API server contain hyphens.
func IsHash(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "0123456789abcdef") == ""
}
