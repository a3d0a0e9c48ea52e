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

// OwnRoutes are routes that a driver has given ovs-vswitchd, in this run or in an earlier one.
type OwnRoutes struct {
	control vswitchd.Control
	routes  []switchRoute
}

// OwnRoutesOf finds those that the row of a bridge tells of, by its external_ids, as far as ovs-vswitchd has them. With
// it they have ended. It is for who takes a node down.
func OwnRoutesOf(ctx context.Context, runDir string, externalIDs map[string]string) (OwnRoutes, error) {
	own := OwnRoutes{control: vswitchd.Control{RunDir: runDir}}
	noted := notedRoutes(externalIDs)
	if len(noted) == 0 {
		return own, nil
	}
	table, err := readTable(ctx, own.control)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return own, err // it lives, and does not answer
	}
	own.routes = table.among(noted)
	return own, nil
}

// Any tells whether there are any.
func (o OwnRoutes) Any() bool { return len(o.routes) > 0 }

func (o OwnRoutes) String() string {
	var to []netip.Prefix
	for _, r := range o.routes {
		to = append(to, r.to)
	}
	return fmt.Sprintf("routes of tunnels in ovs-vswitchd to %s", prefixes(to))
}

// Remove takes them away.
func (o OwnRoutes) Remove(ctx context.Context) (err error) {
	for _, r := range o.routes {
		err = errors.Join(err, deleteSwitchRoute(ctx, o.control, r))
	}
	return err
}

// noteKey is that of the note in external_ids of a bridge's row: where the routes lead that a driver has given.
const noteKey = "tunnel-routes"

// notedRoutes reads what a bridge's row has in external_ids. What is none of our writing is nobody's.
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
