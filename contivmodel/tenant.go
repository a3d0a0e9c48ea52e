package contivmodel

// Tenant is a separate world of networks, groups and policies.
type Tenant struct {
	Key            string         `json:"key"`
	DefaultNetwork string         `json:"defaultNetwork,omitempty" model:"max=64 rule=NAME0" doc:"network for endpoints that name none; stored, not used"`
	TenantName     string         `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"name of the tenant" column:"1 Name"`
	LinkSets       TenantLinkSets `json:"link-sets"`
}

// TenantLinkSets are the objects that belong to a tenant.
type TenantLinkSets struct {
	AppProfiles    LinkSet `json:"AppProfiles,omitempty"`
	EndpointGroups LinkSet `json:"EndpointGroups,omitempty"`
	NetProfiles    LinkSet `json:"NetProfiles,omitempty"`
	Networks       LinkSet `json:"Networks,omitempty"`
	Policies       LinkSet `json:"Policies,omitempty"`
	Servicelbs     LinkSet `json:"Servicelbs,omitempty"`
	VolumeProfiles LinkSet `json:"VolumeProfiles,omitempty"`
	Volumes        LinkSet `json:"Volumes,omitempty"`
}

// TenantOper is the run-time view of a tenant.
type TenantOper struct {
	EndpointGroups   []EndpointGroupOper `json:"endpointGroups,omitempty"`
	Endpoints        []EndpointOper      `json:"endpoints,omitempty"`
	Networks         []NetworkOper       `json:"networks,omitempty"`
	Policies         []PolicyOper        `json:"policies,omitempty"`
	Servicelbs       []ServiceLBOper     `json:"servicelbs,omitempty"`
	TotalAppProfiles int                 `json:"totalAppProfiles,omitempty"`
	TotalEPGs        int                 `json:"totalEPGs,omitempty"`
	TotalEndpoints   int                 `json:"totalEndpoints,omitempty"`
	TotalNetprofiles int                 `json:"totalNetprofiles,omitempty"`
	TotalNetworks    int                 `json:"totalNetworks,omitempty"`
	TotalPolicies    int                 `json:"totalPolicies,omitempty"`
	TotalServicelbs  int                 `json:"totalServicelbs,omitempty"`
}

// TenantInspect answers inspection of a tenant.
type TenantInspect = Inspect[Tenant, TenantOper]

func (t *Tenant) ModelType() string { return "tenant" }
func (t *Tenant) ModelKey() string  { return t.TenantName }
func (t *Tenant) SetKey(key string) { t.Key = key }
