package ovsd

import (
	"context"
	"fmt"
	"maps"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
)

// OwnLimits are limits of connections that a driver has set in zones of a datapath, in this run or in an
// earlier one.
type OwnLimits struct {
	config   Config
	datapath string
	limits   limits
}

// OwnLimitsOf finds those that the row of a bridge tells of, by the type of its datapath and its external_ids. What
// the datapath has not, or has otherwise as somebody has changed it since, is not among them; a datapath that is not
// there has none. It is for who takes a node down.
func OwnLimitsOf(ctx context.Context, runDir, datapathType string, externalIDs map[string]string) (OwnLimits, error) {
	kind := cmpDatapath(datapathType)
	own := OwnLimits{Config{RunDir: runDir}, datapathNamed(kind), givenLimits(externalIDs)}
	if !own.Any() {
		return own, nil
	}
	used, err := own.config.zoneUses(ctx, own.datapath)
	if err != nil && !vswitchd.IsRefused(err) && kind != DatapathNetdev { // which has ended with ovs-vswitchd
		return own, err
	}
	maps.DeleteFunc(own.limits, func(zone uint16, limit int) bool { return used[zone].limit != limit })
	return own, nil
}

// Any tells whether there are any.
func (o OwnLimits) Any() bool { return len(o.limits) > 0 }

// OutliveBridges tells whether they stay when all bridges have gone.
func (o OwnLimits) OutliveBridges() bool {
	return o.Any() && o.datapath == datapathNamed(DatapathSystem)
}

func (o OwnLimits) String() string {
	return fmt.Sprintf("limits of connections in zones %s of datapath %s", o.limits.zones(), o.datapath)
}

// Remove takes them away.
func (o OwnLimits) Remove(ctx context.Context) error {
	return o.config.removeLimits(ctx, o.datapath, o.limits)
}
