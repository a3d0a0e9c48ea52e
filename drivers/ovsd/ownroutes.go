package ovsd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// OwnRoutes are routes that a driver has given ovs-vswitchd, in this run or in an earlier one.
type OwnRoutes struct {
	config Config
	routes []switchRoute
}

// OwnRoutesOf finds those that the row of a bridge tells of, by its external_ids, as far as ovs-vswitchd has them. With
// it they have ended. It is for who takes a node down.
func OwnRoutesOf(ctx context.Context, runDir string, externalIDs map[string]string) (OwnRoutes, error) {
	own := OwnRoutes{config: Config{RunDir: runDir}}
	noted := givenRoutes(externalIDs)
	if len(noted) == 0 {
		return own, nil
	}
	table, err := own.config.switchRoutes(ctx)
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
		err = errors.Join(err, o.config.deleteSwitchRoute(ctx, r))
	}
	return err
}

// givenRoutes reads what a bridge's row has in external_ids. What is none of our writing is nobody's.
func givenRoutes(ids map[string]string) (to []netip.Prefix) {
	for text := range strings.SplitSeq(ids[idRoutes], ",") {
		if p, err := netip.ParsePrefix(text); err == nil {
			to = append(to, p)
		}
	}
	return to
}

// prefixes is the inverse of givenRoutes.
func prefixes(to []netip.Prefix) string {
	var parts []string
	for _, p := range to {
		parts = append(parts, p.String())
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}
