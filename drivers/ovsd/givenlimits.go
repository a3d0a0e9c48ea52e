package ovsd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A datapath does not say who has limited a zone, and the kernel's keeps limits when driver, bridge and ovs-vswitchd have
// gone. So the row of the bridge says which limits a driver has set, from before it sets them until they are taken away:
// whoever comes next, be it a driver or who takes the node down, knows by it whose they are. Where a zone has another limit
// than the row says, somebody else has set that.

// limits are how many connections zones may hold.
type limits map[uint16]int

// String is as a bridge's row has it: ZONE=LIMIT, with commas, ascending.
func (l limits) String() string {
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, fmt.Sprintf("%d=%d", zone, l[zone]))
	}
	return strings.Join(parts, ",")
}

// zones are their numbers, as dpctl/ct-del-limits takes them.
func (l limits) zones() string {
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, strconv.Itoa(int(zone)))
	}
	return strings.Join(parts, ",")
}

// givenLimits reads what a bridge's row has in external_ids. What is none of our writing is nobody's.
func givenLimits(ids map[string]string) limits {
	l := limits{}
	for part := range strings.SplitSeq(ids[idZoneLimits], ",") {
		var zone uint16
		var limit int
		if _, err := fmt.Sscanf(part, "%d=%d", &zone, &limit); err == nil && limit > 0 {
			l[zone] = limit
		}
	}
	return l
}

func (db *database) givenLimits() limits {
	bridge, _ := db.ourBridge()
	return givenLimits(bridge.ExternalIDs)
}

// changeLimits changes the limits of the datapath. The row names all that may be there at any moment.
func (d *Driver) changeLimits(ctx context.Context, c limitChange) error {
	during := maps.Clone(c.ours)
	maps.Copy(during, c.gone)
	if err := d.note(ctx, idZoneLimits, during.String()); err != nil {
		return err
	}
	if len(c.set) > 0 {
		args := []string{d.datapath()}
		for _, zone := range slices.Sorted(maps.Keys(c.set)) {
			args = append(args, fmt.Sprintf("zone=%d,limit=%d", zone, c.set[zone]))
		}
		if _, err := d.config.vswitchd().Call(ctx, "dpctl/ct-set-limits", args...); err != nil {
			return err
		}
	}
	if len(c.gone) > 0 {
		if err := d.config.removeLimits(ctx, d.datapath(), c.gone); err != nil {
			return err
		}
	}
	return d.note(ctx, idZoneLimits, c.ours.String())
}

func (c Config) removeLimits(ctx context.Context, datapath string, gone limits) error {
	_, err := c.vswitchd().Call(ctx, "dpctl/ct-del-limits", datapath, "zone="+gone.zones())
	return err
}
