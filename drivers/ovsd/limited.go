package ovsd

import "github.com/contiv/netplugin/drivers/ovsd/zones"

// limited says how the parts of the tenants in the datapath's connections are kept.
func (d *Driver) limited() zones.Config {
	return zones.Config{
		Log:           d.log,
		Bridge:        d.config.Bridge,
		Limit:         d.config.ZoneLimit,
		AuditInterval: d.config.AuditInterval,
		Control:       d.config.vswitchd(),
		Datapath:      d.datapathType,
		Mine:          d.db.client.Owner,
		ExternalIDs:   d.db.externalIDs,
		Note:          d.note,
	}
}
