package contivmodel

// Network is a subnet of IPv4, of IPv6 or of both, with an encapsulation.
type Network struct {
	Key         string          `json:"key"`
	CfgdTag     string          `json:"cfgdTag,omitempty" model:"max=128 rule=TAG0" doc:"tag by which container runtimes find the network" column:"10 Cfgd Tag"`
	Encap       string          `json:"encap,omitempty" model:"required oneof=vlan|vxlan" doc:"encapsulation between hosts" column:"4 Encap type"`
	Gateway     string          `json:"gateway,omitempty" model:"rule=IPOPT" doc:"IPv4 gateway, reserved if given" column:"7 Gateway"`
	Ipv6Gateway string          `json:"ipv6Gateway,omitempty" model:"rule=V6GW" doc:"IPv6 gateway, reserved if given" column:"9 IPv6Gateway"`
	Ipv6Subnet  string          `json:"ipv6Subnet,omitempty" model:"rule=V6NET" doc:"IPv6 subnet" column:"8 IPv6Subnet"`
	NetworkName string          `json:"networkName,omitempty" model:"key=2 required max=64 rule=NAME" doc:"name of the network" column:"2 Network"`
	NwType      string          `json:"nwType,omitempty" model:"oneof=infra|data default=data" doc:"data, or infra: one port on every host" column:"3 Nw Type"`
	PktTag      int             `json:"pktTag,omitempty" model:"max=16777216" doc:"VLAN or VNI asked for; 0 is automatic" column:"5 Packet tag"`
	Subnet      string          `json:"subnet,omitempty" model:"unless=ipv6Subnet rule=SUBNET" doc:"IPv4 subnet, or first-last/length" column:"6 Subnet"`
	TenantName  string          `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"tenant of the network" column:"1 Tenant"`
	LinkSets    NetworkLinkSets `json:"link-sets"`
	Links       NetworkLinks    `json:"links"`
}

// NetworkLinkSets are the objects linked to a network.
type NetworkLinkSets struct {
	EndpointGroups LinkSet `json:"EndpointGroups,omitempty"`
	Servicelbs     LinkSet `json:"Servicelbs,omitempty"`
	Services       LinkSet `json:"Services,omitempty"`
}

// NetworkLinks are the single objects a network refers to.
type NetworkLinks struct {
	Tenant Link `json:"Tenant"`
}

// NetworkOper is the run-time view of a network.
type NetworkOper struct {
	AllocatedAddressesCount int            `json:"allocatedAddressesCount,omitempty"`
	AllocatedIPAddresses    string         `json:"allocatedIPAddresses,omitempty"`
	AvailableIPAddresses    string         `json:"availableIPAddresses,omitempty"`
	Endpoints               []EndpointOper `json:"endpoints,omitempty"`
	ExternalPktTag          int            `json:"externalPktTag,omitempty"` // VNI; 0 for vlan
	NetworkTag              string         `json:"networkTag,omitempty"`
	NumEndpoints            int            `json:"numEndpoints,omitempty"`
	PktTag                  int            `json:"pktTag,omitempty"` // VLAN inside a host
}

// NetworkInspect is the response of inspect for a network.
type NetworkInspect = Inspect[Network, NetworkOper]

func (n *Network) ModelType() string { return "network" }
func (n *Network) ModelKey() string  { return joinKey(n.TenantName, n.NetworkName) }
func (n *Network) SetKey(key string) { n.Key = key }
