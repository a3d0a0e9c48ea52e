package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// repairProfiles makes the limits in the records of groups those of their
// profiles. Where a group names a profile that is gone or cannot be read, the
// limits stay.
func repairProfiles(tx *ledger.Tx) (findings, error) {
	var found findings
	err := each(tx, mastercfg.ModelKey("endpointGroup", ""), func(_ string, g contivmodel.EndpointGroup) error {
		rec, err := GetGroup(tx, mastercfg.EndpointGroupID(g.TenantName, g.GroupName))
		if err != nil {
			return ignoreCorrupt(ignoreNotFound(err))
		}
		var profile *contivmodel.Netprofile
		if g.NetProfile != "" {
			profile, err = Get[contivmodel.Netprofile](tx, g.TenantName+":"+g.NetProfile, errGone)
			if err != nil {
				return ignoreCorrupt(ignoreNotFound(err))
			}
		}
		bandwidth, dscp, burst := rec.Bandwidth, rec.DSCP, rec.Burst
		ApplyNetProfile(&rec, profile)
		if bandwidth == rec.Bandwidth && dscp == rec.DSCP && burst == rec.Burst {
			return nil
		}
		found = append(found, "limits of endpoint group "+rec.ID+" set to those of its profile")
		return PutGroup(tx, &rec)
	})
	return found, err
}
