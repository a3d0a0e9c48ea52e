package contivmodel

// ServiceLB is a virtual address in front of the endpoints its selectors match.
type ServiceLB struct {
	Key         string         `json:"key"`
	ExternalIPs []string       `json:"externalIps,omitempty" model:"changeable" doc:"addresses at which hosts reach the ports, and who comes in by a host that is routed them"`
	IPAddress   string         `json:"ipAddress,omitempty" model:"max=15 rule=IPOPT changeable" doc:"virtual address asked for; empty is automatic"`
	IPv6Address string         `json:"ipv6Address,omitempty" model:"max=39 rule=V6AUTO changeable" doc:"virtual IPv6 address asked for; auto: any; empty: none, but in a network without IPv4"`
	NetworkName string         `json:"networkName,omitempty" model:"required max=64 rule=NAME changeable" doc:"network that supplies the virtual address" column:"3 Network"`
	NodePorts   []string       `json:"nodePorts,omitempty" model:"changeable" doc:"ports of every host, each nodePort:servicePort:protocol, from 30000 to 32767"`
	Ports       []string       `json:"ports,omitempty" model:"required changeable" doc:"ports, each servicePort:providerPort:protocol"`
	Selectors   []string       `json:"selectors,omitempty" model:"required changeable" doc:"labels of providers, each key=value" column:"4 Selectors"`
	ServiceName string         `json:"serviceName,omitempty" model:"key=2 required max=256 rule=NAME" doc:"name of the service" column:"1 ServiceName"`
	Affinity    int            `json:"sessionAffinity,omitempty" model:"max=65535 changeable" doc:"seconds after its last new connection for which a client, by its address, keeps its provider; 0: none"`
	TenantName  string         `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"tenant of the service" column:"2 Tenant"`
	Links       ServiceLBLinks `json:"links"`
}

// ServiceLBLinks are the single objects a service refers to.
type ServiceLBLinks struct {
	Network Link `json:"Network"`
	Tenant  Link `json:"Tenant"`
}

// ServiceLBOper is the run-time view of a service.
type ServiceLBOper struct {
	NumProviders int            `json:"numProviders,omitempty"`
	Providers    []EndpointOper `json:"providers,omitempty"`
	ServiceVip   string         `json:"serviceVip,omitempty"`
	ServiceVip6  string         `json:"serviceVip6,omitempty"` // if the service has addresses of both families
	// Counters is the traffic between providers and clients, by provider's address: received (rx) and sent (tx) by
	// the provider, summed over the nodes that answered.
	Counters map[string]EndpointCounters `json:"counters,omitempty"`
	Silent   []string                    `json:"silent,omitempty"` // nodes that did not answer, each with the cause
}

// ServiceLBInspect is the response of inspect for a service.
type ServiceLBInspect = Inspect[ServiceLB, ServiceLBOper]

func (s *ServiceLB) ModelType() string { return "serviceLB" }
func (s *ServiceLB) ModelKey() string  { return joinKey(s.TenantName, s.ServiceName) }
func (s *ServiceLB) SetKey(key string) { s.Key = key }
