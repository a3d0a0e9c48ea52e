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

// noted is state of ours in a datapath or in ovs-vswitchd, recorded in the row of one of our bridges.
type noted interface {
	fmt.Stringer
	Any() bool
	Remove(ctx context.Context) error
}

// limits returns the limits of the connections of tenants in the datapaths of our bridges.
func limits(ctx context.Context, c Config) ([]thing, error) {
	return notedAt(ctx, c, func(ctx context.Context, row bridgeRow) (noted, error) {
		return zones.OwnLimitsOf(ctx, c.RunDir, row.Datapath, row.ExternalIDs)
	})
}

// routes returns the routes that were added to ovs-vswitchd for our tunnels.
func routes(ctx context.Context, c Config) ([]thing, error) {
	return notedAt(ctx, c, func(ctx context.Context, row bridgeRow) (noted, error) {
		return tunnelroutes.OwnRoutesOf(ctx, c.RunDir, row.ExternalIDs)
	})
}

// notedAt returns what the rows of our bridges record.
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
		return nil, nil // without a database, the bridges that record it are reported as left
	}
	return things, err
}

// needsLimitsGone returns fault.Unavailable while there may be limits that only the row of the bridge records.
func needsLimitsGone(ctx context.Context, c Config, row bridgeRow) error {
	if own, _ := zones.OwnLimitsOf(ctx, c.RunDir, row.Datapath, row.ExternalIDs); own.OutliveBridges() {
		return fault.New(fault.Unavailable, "its row alone tells of the %s, which have to go first", own)
	}
	return nil
}
