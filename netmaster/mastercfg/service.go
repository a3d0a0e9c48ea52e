package mastercfg

// CfgServiceLBState is the derived record of a service.
type CfgServiceLBState struct {
	ID          string            `json:"id"` // S:T
	ServiceName string            `json:"servicename"`
	Tenant      string            `json:"tenantname"`
	Network     string            `json:"subnet"` // name of the network that supplies the address
	Ports       []string          `json:"ports"`  // servicePort:providerPort:protocol
	Selectors   map[string]string `json:"selectors"`
	IPAddress   string            `json:"ipaddress"` // the virtual address

	IPv6Address string   `json:"ipv6address,omitempty"` // a virtual address, too
	ExternalIPs []string `json:"externalIPs,omitempty"` // the service is reached there as well, and by hosts
	NodePorts   []string `json:"nodePorts,omitempty"`   // nodePort:servicePort:protocol
	Affinity    int      `json:"affinity,omitempty"`    // seconds for which a client keeps its provider; 0: none

	// Providers by "address:tenant" are in answers of netmaster only, even if empty. The store has their
	// addresses in SvcProvider, and their details in the endpoints.
	Providers map[string]Provider `json:"providers,omitzero"`
}

// Provider is a running container whose labels a service selects.
type Provider struct {
	IPAddress   string
	ContainerID string
	Labels      map[string]string
	Tenant      string
	Network     string
	Services    []string // S:T; here the service that the provider is listed in
	Container   string   // unused
	EpIDKey     string   // id of the endpoint
}

// SvcProvider is one address behind a service. There is a record for each, so that an added or removed one is a
// single write.
type SvcProvider struct {
	ID          string   `json:"id"`          // the address
	ServiceName string   `json:"ServiceName"` // S:T
	Providers   []string `json:"Providers"`   // the address

	Draining bool `json:"Draining,omitempty"` // keeps its connections and gets no new ones
}
