package contivmodel

import (
	"slices"
	"strings"
)

// Tenant isolates its networks, groups and policies from those of other tenants.
type Tenant struct {
	Key            string         `json:"key"`
	DefaultNetwork string         `json:"defaultNetwork,omitempty" model:"max=64 rule=NAME0" doc:"network for endpoints that name none; stored, not used"`
	MaxEndpoints   int            `json:"maxEndpoints,omitempty" model:"max=1000000 changeable" doc:"endpoints that agents may ask for in the tenant; 0: 4096, and any number in tenant default"`
	MaxGroups      int            `json:"maxGroups,omitempty" model:"max=32767 changeable" doc:"endpoint groups that who administers the tenant may make; 0: 256"`
	MaxNetworks    int            `json:"maxNetworks,omitempty" model:"max=16384 changeable" doc:"networks that who administers the tenant may make; 0: 64"`
	MaxRules       int            `json:"maxRules,omitempty" model:"max=1000000 changeable" doc:"rules that who administers the tenant may make; 0: 2000"`
	MaxServices    int            `json:"maxServices,omitempty" model:"max=65535 changeable" doc:"services that who administers the tenant may make; 0: 256"`
	Namespaces     string         `json:"namespaces,omitempty" model:"max=4096 rule=NAMES0 changeable" doc:"namespaces of Kubernetes whose pods may be in the tenant; empty: all that name it"`
	PolicyMode     string         `json:"policyMode,omitempty" model:"max=64 oneof=final changeable" doc:"final: what a rule of a group allows no policy of Kubernetes is asked about, in the direction of the rule; empty: policies judge what groups allow"`
	TenantName     string         `json:"tenantName,omitempty" model:"key=1 required max=64 rule=NAME" doc:"name of the tenant" column:"1 Name"`
	Vlans          string         `json:"vlans,omitempty" model:"max=1024 rule=TAGS0 changeable" doc:"VLANs that who administers the tenant may take for networks; empty: none"`
	Vxlans         string         `json:"vxlans,omitempty" model:"max=1024 rule=TAGS0 changeable" doc:"VNIs that who administers the tenant may ask for by number; empty: none"`
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

// TenantInspect is the response of inspect for a tenant.
type TenantInspect = Inspect[Tenant, TenantOper]

// TenantBounds are the fields of a tenant that limit its administrators and its users, and where its rules apply.
type TenantBounds struct {
	MaxEndpoints, MaxGroups, MaxNetworks, MaxRules, MaxServices int
	Namespaces, PolicyMode, Vlans, Vxlans                       string
}

// Bounds returns the bounds of the tenant.
func (t *Tenant) Bounds() TenantBounds {
	return TenantBounds{t.MaxEndpoints, t.MaxGroups, t.MaxNetworks, t.MaxRules, t.MaxServices, t.Namespaces, t.PolicyMode, t.Vlans, t.Vxlans}
}

// SetBounds sets the bounds of the tenant.
func (t *Tenant) SetBounds(b TenantBounds) {
	t.MaxEndpoints, t.MaxGroups, t.MaxNetworks, t.MaxRules, t.MaxServices = b.MaxEndpoints, b.MaxGroups, b.MaxNetworks, b.MaxRules, b.MaxServices
	t.Namespaces, t.PolicyMode, t.Vlans, t.Vxlans = b.Namespaces, b.PolicyMode, b.Vlans, b.Vxlans
}

// Admits reports whether pods of a namespace of Kubernetes may be in the tenant.
func (t *Tenant) Admits(namespace string) bool {
	return t.Namespaces == "" || slices.Contains(strings.Split(t.Namespaces, ","), namespace)
}

func (t *Tenant) ModelType() string { return "tenant" }
func (t *Tenant) ModelKey() string  { return t.TenantName }
func (t *Tenant) SetKey(key string) { t.Key = key }
