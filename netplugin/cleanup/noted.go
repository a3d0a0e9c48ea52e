package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/netplugin/drivers/ovsd/tunnelroutes"
	"github.com/contiv/netplugin/drivers/ovsd/zones"
	"github.com/contiv/netplugin/utils/fault"
)

// noted is something of ours in a datapath or in ovs-vswitchd, of which the row of one of our bridges tells.
type noted interface {
	fmt.Stringer
	Any() bool
	Remove(ctx context.Context) error
}

// limits finds those that the connections of tenants have in the datapaths of our bridges.
func limits(ctx context.Context, c Config) ([]thing, error) {
	return notedAt(ctx, c, func(ctx context.Context, row bridgeRow) (noted, error) {
		return zones.OwnLimitsOf(ctx, c.RunDir, row.Datapath, row.ExternalIDs)
	})
}

// routes finds those that ovs-vswitchd was given for our tunnels.
func routes(ctx context.Context, c Config) ([]thing, error) {
	return notedAt(ctx, c, func(ctx context.Context, row bridgeRow) (noted, error) {
		return tunnelroutes.OwnRoutesOf(ctx, c.RunDir, row.ExternalIDs)
	})
}

// notedAt finds what the rows of our bridges tell of.
func notedAt(ctx context.Context, c Config, find func(context.Context, bridgeRow) (noted, error)) (things []thing, err error) {
	unknown := withDatabase(ctx, c.RunDir, func(ctx context.Context, db *database) error {
		for _, row := range db.bridges.Rows() {
			if !slices.Contains(c.Bridges, row.Name) {
				continue
			}
			own, failed := find(ctx, row)
			switch {
			case failed != nil:
				err = errors.Join(err, fmt.Errorf("%s: %w", own, failed))
			case own.Any():
				things = append(things, thing{what: own.String(), remove: own.Remove})
			}
		}
		return nil
	})
	if unknown != nil {
		return nil, nil // without a database, the bridges are said to be left, which tell of it
	}
	return things, err
}

// needsLimitsGone refuses while there may be limits of which nothing but the row of the bridge tells.
func needsLimitsGone(ctx context.Context, c Config, row bridgeRow) error {
	if own, _ := zones.OwnLimitsOf(ctx, c.RunDir, row.Datapath, row.ExternalIDs); own.OutliveBridges() {
		return fault.New(fault.Unavailable, "its row alone tells of the %s, which have to go first", own)
	}
	return nil
}
