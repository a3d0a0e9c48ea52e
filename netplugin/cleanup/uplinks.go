package cleanup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/contiv/netplugin/drivers/uplink"
)

// undoTime is the time limit for giving the host its addresses back.
const undoTime = 20 * time.Second

// uplinks returns the bridge of the uplinks. It is not removed like the others: the host's own network may be on
// it, and moves back to the links.
func uplinks(ctx context.Context, c Config) ([]thing, error) {
	config := uplink.Config{RunDir: c.RunDir, Log: discardLog()}
	moved, err := uplink.Moved(config)
	if err != nil {
		return nil, err
	}
	there := false
	unknown := withDatabase(ctx, c.RunDir, func(_ context.Context, db *database) error {
		_, there = db.bridges.Find(func(b bridgeRow) bool { return b.Name == uplink.DefaultBridge })
		return nil
	})
	what := strings.Join(append([]string{"bridge " + uplink.DefaultBridge}, moved...), ", ")
	switch {
	case unknown != nil && len(moved) > 0:
		return nil, fmt.Errorf("%s: %w", what, unknown)
	case unknown != nil || len(moved) == 0 && !there:
		return nil, nil // without a database, the bridges are reported as left
	}
	return []thing{{
		what: what,
		remove: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, undoTime)
			defer cancel()
			return uplink.Undo(ctx, config)
		},
	}}, nil
}
