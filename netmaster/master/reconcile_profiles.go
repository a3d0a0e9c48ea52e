package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// repairProfile sets the limits in the record of a group to those of its profile. If the profile is gone or
// cannot be read, the limits stay.
func repairProfile(p *pass, key string) (findings, error) {
	g, ok := readSound[contivmodel.EndpointGroup](p, key)
	if !ok {
		return nil, nil
	}
	rec, err := GetGroup(p, mastercfg.EndpointGroupID(g.TenantName, g.GroupName))
	if err != nil {
		return nil, ignoreCorrupt(ignoreNotFound(err))
	}
	var profile *contivmodel.Netprofile
	if g.NetProfile != "" {
		profile, err = Get[contivmodel.Netprofile](p, g.TenantName+":"+g.NetProfile, errGone)
		if err != nil {
			return nil, ignoreCorrupt(ignoreNotFound(err))
		}
	}
	bandwidth, dscp, burst := rec.Bandwidth, rec.DSCP, rec.Burst
	ApplyNetProfile(&rec, profile)
	if bandwidth == rec.Bandwidth && dscp == rec.DSCP && burst == rec.Burst {
		return nil, nil
	}
	return findings{"limits of endpoint group " + rec.ID + " set to those of its profile"}, PutGroup(p.Tx, &rec)
}
