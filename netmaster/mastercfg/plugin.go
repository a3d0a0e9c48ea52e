package mastercfg

import (
	"cmp"

	"github.com/contiv/netplugin/contivmodel/limits"
)

// RevisionHeader carries, in answers of the plugin routes, the store revision of the change. An agent waits
// until its cache has reached it.
const RevisionHeader = "Contiv-Revision"

// ForwardedHeader marks a request that one netmaster forwards to another: the forwarder's certificate is not the
// client's.
const ForwardedHeader = "Contiv-Forwarded"

// Paths of the routes that agents call.
const (
	AllocAddressPath   = "/plugin/allocAddress"
	ReleaseAddressPath = "/plugin/releaseAddress"
	CreateEndpointPath = "/plugin/createEndpoint"
	DeleteEndpointPath = "/plugin/deleteEndpoint"
	UpdateEndpointPath = "/plugin/updateEndpoint"
)

// AllocAddressRequest asks for an address of a network ("N.T"), of a group's
// pool ("N:G.T"), or of the network that has a pool ("subnet/len[:T]").
type AllocAddressRequest struct {
	AddressPool          string
	NetworkID            string
	PreferredIPv4Address string
}

// Check returns an error for texts that are too long or not plain, as Check of the other requests
// does, also for fields that are not used.
func (r *AllocAddressRequest) Check() error {
	return cmp.Or(
		limits.Text("AddressPool", r.AddressPool, limits.Name),
		limits.Text("NetworkID", r.NetworkID, limits.Name),
		limits.Text("PreferredIPv4Address", r.PreferredIPv4Address, limits.Address),
	)
}

// AllocAddressResponse is the address with its prefix length.
type AllocAddressResponse struct {
	NetworkID   string
	IPv4Address string
}

// ReleaseAddressRequest releases an address.
type ReleaseAddressRequest struct {
	NetworkID   string
	IPv4Address string
}

// Check checks like that of AllocAddressRequest.
func (r *ReleaseAddressRequest) Check() error {
	return cmp.Or(
		limits.Text("NetworkID", r.NetworkID, limits.Name),
		limits.Text("IPv4Address", r.IPv4Address, limits.Address),
	)
}

// ReleaseAddressResponse confirms a release.
type ReleaseAddressResponse struct {
	Status string
}

// ConfigEP is the caller's part of a new endpoint.
type ConfigEP struct {
	Container   string // identity of the endpoint within its network
	Host        string // host label of the node
	IPAddress   string // preferred address; empty: any
	IPv6Address string
	ServiceName string // endpoint group; empty: none
}

// CreateEndpointRequest requests an endpoint; it is idempotent by container.
type CreateEndpointRequest struct {
	TenantName   string
	NetworkName  string
	ServiceName  string // ignored; the group is ConfigEP.ServiceName
	EndpointID   string
	EPCommonName string
	ConfigEP     ConfigEP

	// Of a pod of Kubernetes: its namespace and kubelet's UID of it.
	PodNamespace string `json:",omitempty"`
	PodUID       string `json:",omitempty"`

	// Boot is the kernel's id of the host's present boot; the container of a new endpoint ends with it.
	Boot string `json:",omitempty"`

	// Labels are those of a container that is being started with the endpoint; none: an event will report them.
	Labels map[string]string `json:",omitempty"`
}

// Check checks like that of AllocAddressRequest.
func (r *CreateEndpointRequest) Check() error {
	return cmp.Or(
		limits.Text("TenantName", r.TenantName, limits.Name),
		limits.Text("NetworkName", r.NetworkName, limits.Name),
		limits.Text("ServiceName", r.ServiceName, limits.Name),
		limits.Text("EndpointID", r.EndpointID, limits.EndpointID),
		limits.Text("EPCommonName", r.EPCommonName, limits.CommonName),
		limits.Text("ConfigEP.Container", r.ConfigEP.Container, limits.Container),
		limits.Text("ConfigEP.Host", r.ConfigEP.Host, limits.Host),
		limits.Text("ConfigEP.IPAddress", r.ConfigEP.IPAddress, limits.Address),
		limits.Text("ConfigEP.IPv6Address", r.ConfigEP.IPv6Address, limits.Address),
		limits.Text("ConfigEP.ServiceName", r.ConfigEP.ServiceName, limits.Name),
		limits.Text("PodNamespace", r.PodNamespace, limits.Name),
		limits.Text("PodUID", r.PodUID, limits.Name),
		limits.Text("Boot", r.Boot, limits.Name),
		limits.Labels("Labels", r.Labels),
	)
}

// CreateEndpointResponse is the endpoint's record.
type CreateEndpointResponse struct {
	EndpointConfig CfgEndpointState
}

// DeleteEndpointRequest names an endpoint to delete.
type DeleteEndpointRequest struct {
	TenantName  string
	NetworkName string
	ServiceName string // unused
	EndpointID  string
	IPv4Address string // unused
	Host        string `json:",omitempty"` // host of the endpoint; one of another host is not found. Empty: any
}

// Check checks like that of AllocAddressRequest.
func (r *DeleteEndpointRequest) Check() error {
	return cmp.Or(
		limits.Text("Host", r.Host, limits.Name),
		limits.Text("TenantName", r.TenantName, limits.Name),
		limits.Text("NetworkName", r.NetworkName, limits.Name),
		limits.Text("ServiceName", r.ServiceName, limits.Name),
		limits.Text("EndpointID", r.EndpointID, limits.EndpointID),
		limits.Text("IPv4Address", r.IPv4Address, limits.Address),
	)
}

// DeleteEndpointResponse is the endpoint's former record.
type DeleteEndpointResponse struct {
	EndpointConfig CfgEndpointState
}

// UpdateEndpointRequest reports a container event.
type UpdateEndpointRequest struct {
	IPAddress    string
	ContainerID  string
	Labels       map[string]string
	Tenant       string
	Network      string
	Event        string // start, die; anything else has no effect
	EndpointID   string
	EPCommonName string
}

// Check checks like that of AllocAddressRequest, and limits the number of labels.
func (r *UpdateEndpointRequest) Check() error {
	return cmp.Or(
		limits.Labels("Labels", r.Labels),
		limits.Text("IPAddress", r.IPAddress, limits.Address),
		limits.Text("ContainerID", r.ContainerID, limits.Container),
		limits.Text("Tenant", r.Tenant, limits.Name),
		limits.Text("Network", r.Network, limits.Name),
		limits.Text("Event", r.Event, limits.Name),
		limits.Text("EndpointID", r.EndpointID, limits.EndpointID),
		limits.Text("EPCommonName", r.EPCommonName, limits.CommonName),
	)
}

// UpdateEndpointResponse echoes the address.
type UpdateEndpointResponse struct {
	IPAddress string
}
