package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// Values are encrypted once every registered daemon can read them, and not before: a netmaster of an older
// version, one with another keyring, and a node that reads the store itself would take them for damaged.
func TestValuesAreSealedOnceEverybodyReadsThem(t *testing.T) {
	store := storetest.Open(t)
	blind := []objdb.Service{
		{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.3", Port: 1, Hostname: "older"},
		{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.4", Port: 1, Hostname: "elsewhere", Opens: true, Keyring: "of another cluster"},
		{ServiceName: mastercfg.AgentService, HostAddr: "10.0.0.5", Port: 1, Hostname: "direct"},
	}
	registered := registeredIn(t, store, blind...)
	n, _ := secured(t, func(cfg *Security) { cfg.EncryptValues = true })
	for i := range blind {
		var told string
		testkit.Eventually(t, time.Minute, "it says who does not read values", func() bool {
			n.daemon.values.turned.Send()
			told = n.daemon.values.status()
			return strings.Contains(told, blind[i].Hostname) && (i == 0 || !strings.Contains(told, blind[i-1].Hostname))
		})
		if found := sealedIn(t, store); found > 0 {
			t.Fatalf("%d values are sealed while it says %s", found, told)
		}
		blind[i].Opens, blind[i].Keyring = true, n.daemon.keyring.State()
		registered.Update(blind...)
	}
	testkit.Eventually(t, time.Minute, "values are sealed", func() bool {
		n.daemon.values.turned.Send()
		return n.daemon.values.status() == "sealed" && sealedIn(t, store) > 0
	})
	// A later one changes nothing: it cannot read what is already encrypted.
	blind[0].Opens = false
	registered.Update(blind...)
	testkit.Eventually(t, time.Minute, "an older one is registered", func() bool {
		found, err := n.daemon.values.cannotRead(t.Context())
		return err == nil && len(found) == 1
	})
	n.daemon.values.turned.Send()
	n.ok("POST", "/api/v1/tenants/blue/", `{"tenantName":"blue"}`)
	if kv, err := store.Get(objdb.AsStored(t.Context()), mastercfg.ModelKey("tenant", "blue")); err != nil || !objdb.IsSealed(kv.Key, kv.Value) {
		t.Errorf("%.80q, %v", kv.Value, err)
	}
	fresh := n.daemon.keyring.Values() // of a netmaster that has read nothing yet
	db, err := objdb.Open(objdb.Config{Endpoints: []string{storetest.Endpoint()}, Values: fresh, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	next := &values{Values: fresh, wanted: true, keyring: n.daemon.keyring, db: db, record: n.daemon.record, registered: func() string { return "" }}
	if err := next.begin(t.Context()); err != nil || !next.Sealing() {
		t.Errorf("the next term begins with plain values: %v", err)
	}
}

// A new cluster has its first value encrypted already, though its netmaster has no directory for keys yet.
func TestANewClusterHasNoPlainValueEver(t *testing.T) {
	store := storetest.Open(t)
	_, before, err := store.List(t.Context(), mastercfg.StateRoot)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := secured(t, func(cfg *Security) { cfg.EncryptValues = true })
	n.ok("POST", "/api/v1/tenants/blue/", `{"tenantName":"blue"}`)
	_, last, err := store.List(objdb.AsStored(t.Context()), mastercfg.StateRoot)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for rev := before + 1; rev <= last; rev++ {
		for _, root := range []string{mastercfg.ModelRoot, mastercfg.StateRoot} {
			stored, _, err := store.ListAt(objdb.AsStored(t.Context()), root, rev)
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range stored {
				if found++; !objdb.IsSealed(kv.Key, kv.Value) {
					t.Fatalf("at revision %d %s is stored as %.80q", rev, kv.Key, kv.Value)
				}
			}
		}
	}
	if found == 0 {
		t.Error("nothing was stored")
	}
}

// A cluster without a keyring gets one, and nothing is encrypted with it before every netmaster has it: a
// successor without it could not go on.
func TestNoValueIsSealedByAKeyringThatANetmasterLacks(t *testing.T) {
	store := storetest.Open(t)
	other := objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.3", Port: 1, Hostname: "m3", Opens: true}
	registered := registeredIn(t, store, other)
	n, _ := secured(t, func(cfg *Security) { cfg.EncryptValues = true })
	testkit.Eventually(t, time.Minute, "it says who lacks the keyring", func() bool { return strings.Contains(n.daemon.values.status(), "m3") })
	if found := sealedIn(t, store); found > 0 {
		t.Fatalf("%d values are sealed", found)
	}
	other.Keyring = n.daemon.keyring.State()
	registered.Update(other)
	testkit.Eventually(t, time.Minute, "values are sealed", func() bool {
		n.daemon.values.turned.Send()
		return n.daemon.values.status() == "sealed" && sealedIn(t, store) > 0
	})
}

// Storing all values again takes the same room once more until the store is compacted: it must not fill a store
// that is nearly full.
func TestValuesAreNotStoredAnewWithoutRoom(t *testing.T) {
	store := storetest.Open(t)
	opened := storetest.Lead(t, store)
	if _, err := opened.Update(t.Context(), func(tx *ledger.Tx) error {
		tx.Put(mastercfg.VRFPrefix+"blue", []byte(`{"id":"blue","vrf":1}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ring, full := keyring.In(t.TempDir()), fault.New(fault.Exhausted, "the store is full")
	if err := ring.Make(); err != nil {
		t.Fatal(err)
	}
	v := &values{Values: ring.Values(), wanted: true, keyring: ring, db: store, admit: func() error { return full }}
	v.SetSealing(true)
	kept := func() int64 {
		kv, err := store.Get(t.Context(), mastercfg.VRFPrefix+"blue")
		if err != nil {
			t.Fatal(err)
		}
		return kv.ModRevision
	}
	before := kept()
	if err := v.rewrite(t.Context(), opened, testkit.Quiet()); !errors.Is(err, full) || kept() != before {
		t.Errorf("without room: %v; stored anew: %t", err, kept() != before)
	}
	v.admit = func() error { return nil }
	if err := v.rewrite(t.Context(), opened, testkit.Quiet()); err != nil || kept() == before {
		t.Errorf("with room: %v; stored anew: %t", err, kept() != before)
	}
}

// Values are not reported as plain before they have been checked.
func TestATermBeginsWithValuesThatMayBeSealed(t *testing.T) {
	storetest.Open(t)
	n, _ := secured(t, func(cfg *Security) { cfg.EncryptValues = true })
	testkit.Eventually(t, time.Minute, "values are sealed", func() bool { return n.daemon.values.status() == "sealed" })
	for _, wanted := range []bool{true, false} {
		ring := n.daemon.keyring
		v := &values{Values: ring.Values(), wanted: wanted, keyring: ring}
		if v.learn(); (v.status() != "") != wanted {
			t.Errorf("wanted %t, none read: %q", wanted, v.status())
		}
		db, err := objdb.Open(objdb.Config{Endpoints: []string{storetest.Endpoint()}, Values: v.Values, Log: testkit.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := db.List(t.Context(), mastercfg.ModelRoot); err != nil {
			t.Error(err)
		}
		db.Close()
		if v.learn(); v.status() == "" {
			t.Errorf("wanted %t, sealed ones read: nothing is told", wanted)
		}
	}
}

// registeredIn has daemons be registered until the test ends.
func registeredIn(t *testing.T, store *objdb.DB, services ...objdb.Service) *objdb.Registration {
	t.Helper()
	registered, err := store.Register(t.Context(), time.Minute, services...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registered.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, s := range services {
		testkit.Eventually(t, time.Minute, s.Hostname+" is registered", func() bool { _, err := store.Get(t.Context(), s.Key()); return err == nil })
	}
	return registered
}

// sealedIn returns the number of encrypted values of the model and the state.
func sealedIn(t *testing.T, store *objdb.DB) (values int) {
	t.Helper()
	for _, root := range []string{mastercfg.ModelRoot, mastercfg.StateRoot} {
		stored, _, err := store.List(objdb.AsStored(t.Context()), root)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range stored {
			if objdb.IsSealed(kv.Key, kv.Value) {
				values++
			}
		}
	}
	return values
}
