package mastercfg

import (
	"fmt"
	"net/netip"
	"strings"
)

// Words by which containers, and namespaces of Kubernetes, say where they belong.
const (
	TenantLabel  = "io.contiv.tenant"
	NetworkLabel = "io.contiv.network"
	GroupLabel   = "io.contiv.net-group"
)

// Annotations of pods of Kubernetes that say which addresses they have.
const (
	IPv4Annotation = "io.contiv.ip"
	IPv6Annotation = "io.contiv.ipv6"
)

// ProfileAnnotation of a pod of Kubernetes, or of its namespace, names the profile that counts for the pod, in place of that of its group.
const ProfileAnnotation = "io.contiv.netprofile"

// SharedAnnotation of a service of Kubernetes says "true" if pods of all tenants are to reach it, which its namespace
// has to allow.
const SharedAnnotation = "io.contiv.shared"

// Where a container belongs of which nobody says anything; it has no group then.
const (
	DefaultTenant  = "default"
	DefaultNetwork = "default-net"
)

// EndpointsOfTenant is how many endpoints there may be in a tenant of which no operator has said how many; DefaultTenant has no bound then.
const EndpointsOfTenant = 4096

// AccessNetwork is the infra network through which a host reaches the others of its tenant.
const AccessNetwork = "contivh1"

// Reasons of events about pods for which there is no address.
const (
	PoolExhausted = "PoolExhausted" // in their network, or the range of their group
	TenantFull    = "TenantFull"    // as their tenant has all endpoints that it may have
)

// K8sPod says where a pod of Kubernetes belongs, or why it belongs nowhere. The leader
// writes it as soon as the pod is bound to a node, so that agents need no credentials for
// the API server. While the pod lives only its group, its class, its profile and its bandwidth may change.
type K8sPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"` // that kubelet knows the pod by

	Tenant  string `json:"tenant,omitempty"`
	Network string `json:"network,omitempty"`
	Group   string `json:"group,omitempty"` // empty: none

	// Addresses that it asks for; invalid: any.
	IPv4 netip.Addr `json:"ipv4,omitzero"`
	IPv6 netip.Addr `json:"ipv6,omitzero"`

	// Grace is how many seconds the pod may go on when the API server has it no more; 0: that is not known, as of static pods, which go
	// on without their mirror pods.
	Grace int64 `json:"grace,omitempty"`

	HostPorts []HostPort `json:"hostPorts,omitempty"` // of all its containers, sidecars included

	// Probed tells that kubelet asks the pod at its address how it is, or tells it something there.
	Probed bool `json:"probed,omitempty"`

	// What it may receive and send, in bit/s; 0: as much as its group. May change, too.
	Ingress int64 `json:"ingress,omitempty"`
	Egress  int64 `json:"egress,omitempty"`

	// Profile is what the pod or its namespace asks for; without a name: that of its group counts. May change, too.
	Profile K8sProfile `json:"profile,omitzero"`

	// Class is what policies name the pod by; 0: none does. While it is not known
	// (Classed), the pod is isolated.
	Class   uint16 `json:"class,omitempty"`
	Classed bool   `json:"classed,omitempty"`

	// Why the pod is refused: a word that programs know, as events have it, and a
	// sentence for people. Empty: it is not.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	// What has been asked for since it was placed, and cannot be had while it lives.
	Later string `json:"later,omitempty"`
}

// Pod is the pod's name with its namespace.
func (p K8sPod) Pod() string { return p.Namespace + "/" + p.Name }

// K8sProfile is a profile of a pod's tenant, with what it says.
type K8sProfile struct {
	Name      string `json:"name"`
	Bandwidth string `json:"bandwidth,omitempty"`
	DSCP      int    `json:"DSCP,omitempty"`
	Burst     int    `json:"burst,omitempty"`
}

// HostPort is a port of a pod's node that leads into the pod.
type HostPort struct {
	Address  netip.Addr `json:"address,omitzero"` // of the node; invalid: all of them
	Protocol string     `json:"protocol"`         // tcp, udp or sctp
	Port     uint16     `json:"port"`             // of the node
	To       uint16     `json:"to"`               // of the pod
}

// String is the host port as messages show it, such as udp 192.0.2.1:53.
func (p HostPort) String() string {
	if p.Address.IsValid() {
		return p.Protocol + " " + netip.AddrPortFrom(p.Address, p.Port).String()
	}
	return fmt.Sprintf("%s port %d", p.Protocol, p.Port)
}

// Clashes tells whether a packet may be for both.
func (p HostPort) Clashes(with HostPort) bool {
	return p.SamePlace(with) || p.Protocol == with.Protocol && p.Port == with.Port && (!p.Address.IsValid() || !with.Address.IsValid())
}

// SamePlace tells whether both are one port at one address, or at all.
func (p HostPort) SamePlace(as HostPort) bool {
	return p.Protocol == as.Protocol && p.Port == as.Port && p.Address == as.Address
}

// K8sPodKey is where a pod of a node is noted.
func K8sPodKey(node, uid string) string { return K8sPodPrefix + node + "/" + uid }

// IsHash tells whether a text may be a hash, as the UIDs are that kubelet gives static pods, and what container runtimes call
// containers. The UIDs that an API server gives have hyphens.
func IsHash(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "0123456789abcdef") == ""
}
