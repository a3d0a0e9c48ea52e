package master_test

import (
	"os"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// world is a store with the global object and the tenant "default".
type world struct {
	testing.TB
	db     *objdb.DB
	ledger *ledger.Ledger
	api    *api.API
	log    *test.Hook
	entry  *logrus.Entry
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db := storetest.Open(t)
	ledger := storetest.Lead(t, db)
	logger, hook := test.NewNullLogger()
	a := api.New(ledger, db, mirror.NewFeed(db, mastercfg.ModelRoot), api.Config{ClusterMode: "cni", Self: "127.0.0.1:1", Log: testkit.Quiet(),
		Defaults: api.WithDefaults(contivmodel.Global{FwdMode: "routing"})})
	if err := a.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &world{t, db, ledger, a, hook, logrus.NewEntry(logger)}
}

// update runs a plan that must succeed.
func (w *world) update(plan func(tx *ledger.Tx) error) {
	w.Helper()
	if _, err := w.ledger.Update(w.Context(), plan); err != nil {
		w.Fatal(err)
	}
}

// damage puts or, with an empty value, deletes a key without the master's checks.
func (w *world) damage(key, value string) {
	w.Helper()
	w.update(func(tx *ledger.Tx) error {
		if value == "" {
			tx.Delete(key)
		} else {
			tx.Put(key, []byte(value))
		}
		return nil
	})
}

// reconcile runs a reconciler and returns what it reports.
func (w *world) reconcile(rc *master.Reconciler) []string {
	w.Helper()
	w.log.Reset()
	if err := rc.Run(w.Context()); err != nil {
		w.Fatal(err)
	}
	var texts []string
	for _, entry := range w.log.AllEntries() {
		texts = append(texts, entry.Message)
	}
	slices.Sort(texts)
	return texts
}
