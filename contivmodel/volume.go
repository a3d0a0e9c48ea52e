package contivmodel

// Volume has routes and no implementation; clients still request its list.
type Volume struct {
	Key           string         `json:"key"`
	DatastoreType string         `json:"datastoreType,omitempty"`
	MountPoint    string         `json:"mountPoint,omitempty"`
	PoolName      string         `json:"poolName,omitempty"`
	Size          string         `json:"size,omitempty"`
	TenantName    string         `json:"tenantName,omitempty" model:"key=1" column:"1 Tenant"`
	VolumeName    string         `json:"volumeName,omitempty" model:"key=2" column:"2 Volume"`
	LinkSets      VolumeLinkSets `json:"link-sets"`
	Links         VolumeLinks    `json:"links"`
}

// VolumeLinkSets are the objects linked to a volume.
type VolumeLinkSets struct {
	ServiceInstances LinkSet `json:"ServiceInstances,omitempty"`
}

// VolumeLinks are the single objects a volume refers to.
type VolumeLinks struct {
	Tenant Link `json:"Tenant"`
}

func (v *Volume) ModelType() string { return "volume" }
func (v *Volume) ModelKey() string  { return joinKey(v.TenantName, v.VolumeName) }
func (v *Volume) SetKey(key string) { v.Key = key }

// VolumeProfile has routes and no implementation, like Volume.
type VolumeProfile struct {
	Key               string                `json:"key"`
	DatastoreType     string                `json:"datastoreType,omitempty"`
	MountPoint        string                `json:"mountPoint,omitempty"`
	PoolName          string                `json:"poolName,omitempty"`
	Size              string                `json:"size,omitempty"`
	TenantName        string                `json:"tenantName,omitempty" model:"key=1" column:"1 Tenant"`
	VolumeProfileName string                `json:"volumeProfileName,omitempty" model:"key=2" column:"2 Volume profile"`
	LinkSets          VolumeProfileLinkSets `json:"link-sets"`
	Links             VolumeProfileLinks    `json:"links"`
}

// VolumeProfileLinkSets are the objects linked to a volume profile.
type VolumeProfileLinkSets struct {
	Services LinkSet `json:"Services,omitempty"`
}

// VolumeProfileLinks are the single objects a volume profile refers to.
type VolumeProfileLinks struct {
	Tenant Link `json:"Tenant"`
}

func (v *VolumeProfile) ModelType() string { return "volumeProfile" }
func (v *VolumeProfile) ModelKey() string  { return joinKey(v.TenantName, v.VolumeProfileName) }
func (v *VolumeProfile) SetKey(key string) { v.Key = key }
