package zones

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
)

// OwnLimits are limits of connections that a driver has set in zones of a datapath, in this run or in an earlier one.
type OwnLimits struct {
	control  vswitchd.Control
	datapath string
	limits   limits
}

// OwnLimitsOf returns the limits listed in the row of a bridge, by the type of its datapath and its external_ids, as
// far as the datapath has them unchanged; a datapath that does not exist has none. It is for decommissioning a node.
func OwnLimitsOf(ctx context.Context, runDir, datapathType string, externalIDs map[string]string) (OwnLimits, error) {
	kind := cmp.Or(datapathType, vswitchd.System)
	own := OwnLimits{vswitchd.Control{RunDir: runDir}, vswitchd.DatapathNamed(kind), notedLimits(externalIDs)}
	if !own.Any() {
		return own, nil
	}
	used, err := zoneUses(ctx, own.control, own.datapath)
	if err != nil && !vswitchd.IsRefused(err) && kind != vswitchd.Netdev { // it has ended with ovs-vswitchd
		return own, err
	}
	maps.DeleteFunc(own.limits, func(zone uint16, limit int) bool { return used[zone].limit != limit })
	return own, nil
}

// Any reports whether there are any.
func (o OwnLimits) Any() bool { return len(o.limits) > 0 }

// OutliveBridges reports whether they stay when all bridges are gone.
func (o OwnLimits) OutliveBridges() bool {
	return o.Any() && o.datapath == vswitchd.DatapathNamed(vswitchd.System)
}

func (o OwnLimits) String() string {
	return fmt.Sprintf("limits of connections in zones %s of datapath %s", o.limits.zones(), o.datapath)
}

// Remove removes them.
func (o OwnLimits) Remove(ctx context.Context) error {
	return removeLimits(ctx, o.control, o.datapath, o.limits)
}
