package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/utils/fault"
)

// limits finds those that the connections of tenants have in the datapaths of our bridges.
func limits(ctx context.Context, c Config) (things []thing, err error) {
	unknown := withDatabase(ctx, c.RunDir, func(ctx context.Context, db *database) error {
		for _, row := range db.bridges.Rows() {
			if !slices.Contains(c.Bridges, row.Name) {
				continue
			}
			own, failed := ovsd.OwnLimitsOf(ctx, c.RunDir, row.Datapath, row.ExternalIDs)
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
		return nil, nil // without a database, the bridges are said to be left, which tell of limits
	}
	return things, err
}

// needsLimitsGone refuses while there may be limits of which nothing but the row of the bridge tells.
func needsLimitsGone(ctx context.Context, c Config, row bridgeRow) error {
	if own, _ := ovsd.OwnLimitsOf(ctx, c.RunDir, row.Datapath, row.ExternalIDs); own.OutliveBridges() {
		return fault.New(fault.Unavailable, "its row alone tells of the %s, which have to go first", own)
	}
	return nil
}
