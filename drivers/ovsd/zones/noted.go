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

// A datapath does not say who has limited a zone, and the kernel's keeps limits when driver, bridge and ovs-vswitchd have
// gone. So the row of the bridge says which limits a driver has set, from before it sets them until they are taken away:
// whoever comes next, be it a driver or who takes the node down, knows by it whose they are. Where a zone has another limit
// than the row says, somebody else has set that.

// noteKey is that of the note in external_ids of a bridge's row.
const noteKey = "zone-limits"

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

// notedLimits reads what a bridge's row has in external_ids. What is none of our writing is nobody's.
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

// changeLimits changes the limits of the datapath. The row names all that may be there at any moment.
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
