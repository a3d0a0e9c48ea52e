package ovsd

import "github.com/contiv/netplugin/drivers/ovsd/zones"

// limited returns the configuration of package zones, which limits the tenants' parts of the datapath's connections.
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
