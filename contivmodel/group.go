package contivmodel

// EndpointGroup is a set of endpoints of one network that policies apply to.
type EndpointGroup struct {
	Key              string                `json:"key"`
	CfgdTag          string                `json:"cfgdTag,omitempty" model:"max=128 rule=TAG0" doc:"tag by which container runtimes find the group" column:"5 CfgdTag"`
	ExtContractsGrps []string              `json:"extContractsGrps,omitempty" model:"changeable" doc:"external contract groups"`
	GroupName        string                `json:"groupName,omitempty" model:"key=2 required max=64 rule=NAME" doc:"name of the group" column:"2 Group"`
	IPPool           string                `json:"ipPool,omitempty" model:"rule=POOL" doc:"address range reserved for the group, first-last" column:"4 IP Pool"`
	NetProfile       string                `json:"netProfile,omitempty" model:"max=64 changeable" doc:"network profile" column:"7 Network profile"`
	NetworkName      string                `json:"networkName,omitempty" model:"required max=64 rule=NAME" doc:"network of the group" column:"3 Network"`
	Policies         []string              `json:"policies,omitempty" model:"changeable" doc:"policies in force" column:"6 Policies"`
	TenantName       string                `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"tenant of the group" column:"1 Tenant"`
	LinkSets         EndpointGroupLinkSets `json:"link-sets"`
	Links            EndpointGroupLinks    `json:"links"`
}

// EndpointGroupLinkSets are the objects linked to a group.
type EndpointGroupLinkSets struct {
	ExtContractsGrps LinkSet `json:"ExtContractsGrps,omitempty"`
	MatchRules       LinkSet `json:"MatchRules,omitempty"` // rules that name this group
	Policies         LinkSet `json:"Policies,omitempty"`
	Services         LinkSet `json:"Services,omitempty"`
}

// EndpointGroupLinks are the single objects a group refers to.
type EndpointGroupLinks struct {
	AppProfile Link `json:"AppProfile"`
	NetProfile Link `json:"NetProfile"`
	Network    Link `json:"Network"`
	Tenant     Link `json:"Tenant"`
}

// EndpointGroupOper is the run-time view of a group.
type EndpointGroupOper struct {
	AllocatedIPAddresses string         `json:"allocatedIPAddresses,omitempty"`
	AvailableIPAddresses string         `json:"availableIPAddresses,omitempty"`
	Endpoints            []EndpointOper `json:"endpoints,omitempty"`
	ExternalPktTag       int            `json:"externalPktTag,omitempty"`
	GroupTag             string         `json:"groupTag,omitempty"`
	NumEndpoints         int            `json:"numEndpoints,omitempty"`
	PktTag               int            `json:"pktTag,omitempty"`
}

// EndpointGroupInspect is the response of inspect for a group.
type EndpointGroupInspect = Inspect[EndpointGroup, EndpointGroupOper]

func (g *EndpointGroup) ModelType() string { return "endpointGroup" }
func (g *EndpointGroup) ModelKey() string  { return joinKey(g.TenantName, g.GroupName) }
func (g *EndpointGroup) SetKey(key string) { g.Key = key }
