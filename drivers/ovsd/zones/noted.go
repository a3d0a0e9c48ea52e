package zones

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
)

// A datapath does not store the owner of a zone's limit, and the kernel's keeps limits when driver, bridge and
// ovs-vswitchd are gone. So the row of the bridge lists the limits that a driver has set, from before it sets
// them until they are removed: the next driver, or the command that decommissions the node, identifies them by
// it. If a zone has another limit than the row lists, another program has set it.

// noteKey is the key of the list in external_ids of a bridge's row.
const noteKey = "zone-limits"

// limits are how many connections zones may hold.
type limits map[uint16]int

// String returns the form in a bridge's row: ZONE=LIMIT, with commas, ascending.
func (l limits) String() string {
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, fmt.Sprintf("%d=%d", zone, l[zone]))
	}
	return strings.Join(parts, ",")
}

// zones returns their numbers in the form of dpctl/ct-del-limits.
func (l limits) zones() string {
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, strconv.Itoa(int(zone)))
	}
	return strings.Join(parts, ",")
}

// notedLimits parses the list in external_ids of a bridge's row, and ignores what the driver would not have written.
func notedLimits(ids map[string]string) limits {
	l := limits{}
	for part := range strings.SplitSeq(ids[noteKey], ",") {
		var zone uint16
		var limit int
		if _, err := fmt.Sscanf(part, "%d=%d", &zone, &limit); err == nil && limit > 0 {
			l[zone] = limit
		}
	}
	return l
}

// changeLimits changes the limits of the datapath. The row lists all that may exist at any moment.
func (b *Bridge) changeLimits(ctx context.Context, c limitChange) error {
	during := maps.Clone(c.ours)
	maps.Copy(during, c.gone)
	if err := b.config.Note(ctx, noteKey, during.String()); err != nil {
		return err
	}
	if len(c.set) > 0 {
		args := []string{b.datapath()}
		for _, zone := range slices.Sorted(maps.Keys(c.set)) {
			args = append(args, fmt.Sprintf("zone=%d,limit=%d", zone, c.set[zone]))
		}
		if _, err := b.config.Control.Call(ctx, "dpctl/ct-set-limits", args...); err != nil {
			return err
		}
	}
	if len(c.gone) > 0 {
		if err := removeLimits(ctx, b.config.Control, b.datapath(), c.gone); err != nil {
			return err
		}
	}
	return b.config.Note(ctx, noteKey, c.ours.String())
}

func removeLimits(ctx context.Context, control vswitchd.Control, datapath string, gone limits) error {
	_, err := control.Call(ctx, "dpctl/ct-del-limits", datapath, "zone="+gone.zones())
	return err
}
