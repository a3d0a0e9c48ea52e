package contivmodel

// ExtContractsGroup names contracts that exist in the fabric.
type ExtContractsGroup struct {
	Key                string                    `json:"key"`
	Contracts          []string                  `json:"contracts,omitempty" doc:"names of the contracts in the fabric" column:"4 Contracts"`
	ContractsGroupName string                    `json:"contractsGroupName,omitempty" model:"key=2 required max=64 rule=NAME" doc:"name of the contracts group" column:"2 Name"`
	ContractsType      string                    `json:"contractsType,omitempty" model:"required oneof=provided|consumed unchecked" doc:"direction of the contracts" column:"3 Type"`
	TenantName         string                    `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"tenant of the contracts group" column:"1 Tenant"`
	LinkSets           ExtContractsGroupLinkSets `json:"link-sets"`
}

// ExtContractsGroupLinkSets are the objects that refer to a contracts group.
type ExtContractsGroupLinkSets struct {
	EndpointGroups LinkSet `json:"EndpointGroups,omitempty"`
}

func (e *ExtContractsGroup) ModelType() string { return "extContractsGroup" }
func (e *ExtContractsGroup) ModelKey() string  { return joinKey(e.TenantName, e.ContractsGroupName) }
func (e *ExtContractsGroup) SetKey(key string) { e.Key = key }

// AppProfile is a set of groups that the fabric treats as one application.
type AppProfile struct {
	Key            string             `json:"key"`
	AppProfileName string             `json:"appProfileName,omitempty" model:"key=2 required max=64 rule=NAME" doc:"name of the application profile" column:"2 AppProfile"`
	EndpointGroups []string           `json:"endpointGroups,omitempty" model:"changeable" doc:"member groups" column:"3 Groups"`
	TenantName     string             `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"tenant of the application profile" column:"1 Tenant"`
	LinkSets       AppProfileLinkSets `json:"link-sets"`
	Links          AppProfileLinks    `json:"links"`
}

// AppProfileLinkSets are the objects linked to an application profile.
type AppProfileLinkSets struct {
	EndpointGroups LinkSet `json:"EndpointGroups,omitempty"`
}

// AppProfileLinks are the single objects an application profile refers to.
type AppProfileLinks struct {
	Tenant Link `json:"Tenant"`
}

func (a *AppProfile) ModelType() string { return "appProfile" }
func (a *AppProfile) ModelKey() string  { return joinKey(a.TenantName, a.AppProfileName) }
func (a *AppProfile) SetKey(key string) { a.Key = key }

// AciGw is the connection to the fabric; there is at most one.
type AciGw struct {
	Key                 string `json:"key"`
	EnforcePolicies     string `json:"enforcePolicies,omitempty" model:"required max=64 oneof=yes|no changeable" doc:"let the fabric enforce policies" column:"4 Enforce policies"`
	IncludeCommonTenant string `json:"includeCommonTenant,omitempty" model:"required max=64 oneof=yes|no changeable" doc:"use objects of the fabric's common tenant" column:"5 Include Common-Tenant"`
	Name                string `json:"name,omitempty" model:"key=1 required max=64 oneof=aciGw" doc:"fixed name"`
	NodeBindings        string `json:"nodeBindings,omitempty" model:"max=2048 rule=NODEBIND changeable" doc:"fabric nodes, comma separated" column:"2 Node bindings"`
	PathBindings        string `json:"pathBindings,omitempty" model:"max=2048 rule=PATHBIND changeable" doc:"fabric ports, comma separated" column:"1 Path bindings"`
	PhysicalDomain      string `json:"physicalDomain,omitempty" model:"required max=128 rule=NAME changeable" doc:"physical domain of the fabric" column:"3 Physical domain"`
}

// AciGwOper is the run-time view of the fabric connection.
type AciGwOper struct {
	NumAppProfiles int `json:"numAppProfiles,omitempty"`
}

// AciGwInspect is the response of inspect for the fabric connection.
type AciGwInspect = Inspect[AciGw, AciGwOper]

func (a *AciGw) ModelType() string { return "aciGw" }
func (a *AciGw) ModelKey() string  { return a.Name }
func (a *AciGw) SetKey(key string) { a.Key = key }
