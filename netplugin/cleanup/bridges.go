package cleanup

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/utils/fault"
)

// Time limits for Open vSwitch, which is on this machine.
const (
	databaseTime = 5 * time.Second // to answer
	switchTime   = 5 * time.Second // to apply the database
)

type bridgeRow struct {
	UUID        ovsdb.UUID        `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Ports       []ovsdb.UUID      `ovsdb:"ports"`
	Datapath    string            `ovsdb:"datapath_type"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type rootRow struct {
	UUID   ovsdb.UUID `ovsdb:"_uuid"`
	CurCfg int64      `ovsdb:"cur_cfg"` // the next_cfg that ovs-vswitchd has caught up with
}

// database is a connection to the switch's database.
type database struct {
	client  *ovsdb.Client
	bridges *ovsdb.Table[bridgeRow]
	root    *ovsdb.Table[rootRow]
}

// withDatabase calls do with a connection that lasts as long as the call; fault.Unavailable if the database does
// not answer.
func withDatabase(ctx context.Context, runDir string, do func(ctx context.Context, db *database) error) error {
	return withLock(ctx, runDir, "", do)
}

// withLock is withDatabase, and requests an OVSDB lock, which another process may hold.
func withLock(ctx context.Context, runDir, lock string, do func(ctx context.Context, db *database) error) error {
	db := &database{bridges: ovsdb.NewTable[bridgeRow]("Bridge", nil), root: ovsdb.NewTable[rootRow]("Open_vSwitch", nil)}
	target := filepath.Join(runDir, "db.sock")
	var err error
	if db.client, err = ovsdb.New(ovsdb.Config{Target: "unix:" + target, Lock: lock, Log: discardLog()}, db.bridges, db.root); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- db.client.Run(ctx) }()
	defer func() {
		cancel()
		<-ended // with the context's error
	}()
	waiting, stop := context.WithTimeout(ctx, databaseTime)
	defer stop()
	if err := db.client.Wait(waiting, func() (bool, error) { return db.client.Connected(), nil }); err != nil {
		return fault.New(fault.Unavailable, "the database of Open vSwitch does not answer at %s", target)
	}
	return do(ctx, db)
}

// bridges returns our bridges. Without a database it returns an error.
func bridges(ctx context.Context, c Config) (things []thing, err error) {
	err = withDatabase(ctx, c.RunDir, func(_ context.Context, db *database) error {
		for _, row := range db.bridges.Rows() {
			if slices.Contains(c.Bridges, row.Name) {
				things = append(things, bridgeOf(c, row))
			}
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("bridges %v, if there are any: %w", c.Bridges, err)
	}
	return things, err
}

func bridgeOf(c Config, row bridgeRow) thing {
	return thing{
		what: fmt.Sprintf("bridge %s with %d ports", row.Name, len(row.Ports)),
		remove: func(ctx context.Context) error {
			if err := needsLimitsGone(ctx, c, row); err != nil {
				return err
			}
			return removeBridge(ctx, c.RunDir, row.UUID)
		},
	}
}

// removeBridge deletes the bridge's row and waits until ovs-vswitchd has applied that. The server garbage-collects
// the rows of its ports.
func removeBridge(ctx context.Context, runDir string, id ovsdb.UUID) error {
	return withDatabase(ctx, runDir, func(ctx context.Context, db *database) error {
		_, config, err := db.client.Configure(ctx,
			ovsdb.Mutate("Open_vSwitch", ovsdb.All(), ovsdb.Mutation{Column: "bridges", Mutator: "delete", Value: id}))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, switchTime)
		defer cancel()
		err = db.client.Wait(ctx, func() (bool, error) {
			root, ok := db.root.Find(func(rootRow) bool { return true })
			return ok && root.CurCfg >= config, nil
		})
		if err != nil {
			return fault.New(fault.Unavailable, "its rows are gone; ovs-vswitchd does not answer, and removes the rest when it starts")
		}
		return nil
	})
}
