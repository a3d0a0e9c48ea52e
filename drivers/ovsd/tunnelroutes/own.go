package tunnelroutes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
)

// OwnRoutes are routes that a driver has set in ovs-vswitchd, in this run or in an earlier one.
type OwnRoutes struct {
	control vswitchd.Control
	routes  []switchRoute
}

// OwnRoutesOf returns the routes listed in the external_ids of a bridge's row, as far as ovs-vswitchd has them;
// none if it has ended. It is for decommissioning a node.
func OwnRoutesOf(ctx context.Context, runDir string, externalIDs map[string]string) (OwnRoutes, error) {
	own := OwnRoutes{control: vswitchd.Control{RunDir: runDir}}
	noted := notedRoutes(externalIDs)
	if len(noted) == 0 {
		return own, nil
	}
	table, err := readTable(ctx, own.control)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return own, err // it runs, and does not answer
	}
	own.routes = table.among(noted)
	return own, nil
}

// Any reports whether there are any.
func (o OwnRoutes) Any() bool { return len(o.routes) > 0 }

func (o OwnRoutes) String() string {
	var to []netip.Prefix
	for _, r := range o.routes {
		to = append(to, r.to)
	}
	return fmt.Sprintf("routes of tunnels in ovs-vswitchd to %s", prefixes(to))
}

// Remove deletes them.
func (o OwnRoutes) Remove(ctx context.Context) (err error) {
	for _, r := range o.routes {
		err = errors.Join(err, deleteSwitchRoute(ctx, o.control, r))
	}
	return err
}

// noteKey is the key in external_ids of a bridge's row for the prefixes of the routes that a driver has set.
const noteKey = "tunnel-routes"

// notedRoutes parses the list in external_ids of a bridge's row, and ignores what the driver would not have written.
func notedRoutes(ids map[string]string) (to []netip.Prefix) {
	for text := range strings.SplitSeq(ids[noteKey], ",") {
		if p, err := netip.ParsePrefix(text); err == nil {
			to = append(to, p)
		}
	}
	return to
}

// prefixes is the inverse of notedRoutes.
func prefixes(to []netip.Prefix) string {
	var parts []string
	for _, p := range to {
		parts = append(parts, p.String())
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}
