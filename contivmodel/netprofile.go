package contivmodel

// Netprofile is a rate limit and marking for groups that refer to it.
type Netprofile struct {
	Key         string             `json:"key"`
	DSCP        int                `json:"DSCP,omitempty" model:"max=63 changeable" doc:"mark of the IP packets that members send; 0 leaves them as they are" column:"4 DSCP"`
	Bandwidth   string             `json:"bandwidth,omitempty" model:"max=64 rule=RATE changeable" doc:"rate of each member in each direction, such as 10 Mbps; empty is unlimited" column:"3 Bandwidth"`
	Burst       int                `json:"burst,omitempty" model:"max=10486 changeable" doc:"kilobytes that may exceed the rate at once; 0 is as many as a TCP connection needs" column:"5 burst size"`
	ProfileName string             `json:"profileName,omitempty" model:"key=2 required max=64 rule=NAME_" doc:"name of the profile" column:"1 Name"`
	TenantName  string             `json:"tenantName,omitempty" model:"key=1 required" doc:"tenant of the profile" column:"2 Tenant"`
	LinkSets    NetprofileLinkSets `json:"link-sets"`
	Links       NetprofileLinks    `json:"links"`
}

// NetprofileLinkSets are the objects linked to a profile.
type NetprofileLinkSets struct {
	EndpointGroups LinkSet `json:"EndpointGroups,omitempty"`
}

// NetprofileLinks are the single objects a profile refers to.
type NetprofileLinks struct {
	Tenant Link `json:"Tenant"`
}

func (n *Netprofile) ModelType() string { return "netprofile" }
func (n *Netprofile) ModelKey() string  { return joinKey(n.TenantName, n.ProfileName) }
func (n *Netprofile) SetKey(key string) { n.Key = key }
