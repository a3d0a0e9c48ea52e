package ovsd

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/ovsdb"
)

// targetRow is a row of Manager, or of Controller.
type targetRow struct {
	UUID   ovsdb.UUID `ovsdb:"_uuid"`
	Target string     `ovsdb:"target"`
}

// inDatabase is the prefix of ovsdb-server's remotes that are to be looked up in a database.
const inDatabase = "db:"

// Listeners returns all listeners in the database, of all bridges, and those that ovsdb-server has from its command
// line or its control socket. Unix sockets are omitted. If ovsdb-server does not list its own, that is the error,
// and the others are returned with it.
func (d *Driver) Listeners(ctx context.Context) ([]drivers.Listener, error) {
	var all []drivers.Listener
	add := func(l drivers.Listener) {
		if kind, _, _ := strings.Cut(l.Target, ":"); kind != "unix" && kind != "punix" {
			all = append(all, l)
		}
	}
	for _, m := range d.db.managers.Rows() {
		add(drivers.Listener{Target: m.Target})
	}
	for _, b := range d.db.bridges.Rows() {
		for _, id := range b.Controllers {
			c, _ := d.db.controllers.Get(id) // all tables change together
			add(drivers.Listener{Target: c.Target, Bridge: b.Name})
		}
	}
	remotes, err := d.config.vswitchd().Remotes(ctx)
	for _, target := range remotes {
		if !strings.HasPrefix(target, inDatabase) {
			add(drivers.Listener{Target: target, Option: true})
		}
	}
	slices.SortFunc(all, func(a, b drivers.Listener) int {
		return cmp.Or(cmp.Compare(a.Bridge, b.Bridge), cmp.Compare(a.Target, b.Target))
	})
	return all, err
}
