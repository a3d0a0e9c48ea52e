package mastercfg

// RevisionHeader carries, on answers of the plugin routes, the store revision
// at which the change became visible. An agent waits for its cache to reach it.
const RevisionHeader = "Contiv-Revision"

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

// AllocAddressResponse is the address with its prefix length.
type AllocAddressResponse struct {
	NetworkID   string
	IPv4Address string
}

// ReleaseAddressRequest gives an address back.
type ReleaseAddressRequest struct {
	NetworkID   string
	IPv4Address string
}

// ReleaseAddressResponse confirms a release.
type ReleaseAddressResponse struct {
	Status string
}

// ConfigEP is what the caller knows of a new endpoint.
type ConfigEP struct {
	Container   string // identity of the endpoint within its network
	Host        string // host label of the node
	IPAddress   string // preferred address; empty: any
	IPv6Address string
	ServiceName string // endpoint group; empty: none
}

// CreateEndpointRequest asks for an endpoint; it is idempotent by container.
type CreateEndpointRequest struct {
	TenantName   string
	NetworkName  string
	ServiceName  string // ignored; the group is ConfigEP.ServiceName
	EndpointID   string
	EPCommonName string
	ConfigEP     ConfigEP
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
}

// DeleteEndpointResponse is the endpoint's record as it was.
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

// UpdateEndpointResponse echoes the address.
type UpdateEndpointResponse struct {
	IPAddress string
}
