package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// Plain passwords stored by an earlier version remain plain until the key is replaced in a cluster whose
// netmasters all decrypt values for agents. Then they are encrypted, and again with each new key.
func TestPasswordsOfBeforeAreSealedWithTheNextKey(t *testing.T) {
	const password = "canary-of-a-router"
	keys := keyring.In(t.TempDir())
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.Keyring, c.StoreClosed = keys, true })
	place := mastercfg.ModelKey("Bgp", "h9")
	b.want("proven:root", "POST", "/api/v1/Bgps/h9/", `{"hostname":"h9","routerip":"192.0.2.9/24","as":"65001","neighbor":"192.0.2.1","neighbor-as":"65002","password":"`+password+`"}`, 200, `"***"`)
	b.want("proven:root", "POST", mastercfg.RotateKeysPath, `{}`, 200, `"step":"again"`)
	master := objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.3", Port: 1}
	registered, err := b.db.Register(t.Context(), time.Minute, master)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registered.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	replace := func(seals bool, wanted string) (sealed string) {
		t.Helper()
		b.want("proven:root", "POST", mastercfg.RotateKeysPath, `{}`, 200, `"step":"add"`)
		master.Seals, master.Keyring = seals, keys.State()
		registered.Update(master)
		testkit.Eventually(t, 20*time.Second, "it says that it has the key", func() bool {
			all, err := b.db.Services(t.Context(), mastercfg.MasterService)
			return err == nil && len(all) == 1 && all[0].Keyring == master.Keyring && all[0].Seals == seals
		})
		b.want("proven:root", "POST", mastercfg.RotateKeysPath, `{}`, 200, wanted)
		sealed = string(record[mastercfg.CfgBgpState](b, mastercfg.BgpPrefix+"h9").Password)
		if is := record[contivmodel.Bgp](b, place); string(is.Password) != sealed {
			t.Error("object and record have other texts")
		}
		return sealed
	}
	if is := replace(false, `"step":"turn","done":true,"resealed":0,"left":0`); is != password {
		t.Errorf("sealed, and an older netmaster hands it to agents as it is: %s", is)
	}
	b.want("proven:root", "POST", mastercfg.RotateKeysPath, `{}`, 200, `"step":"add"`)
	if err := keys.Turn(); err != nil { // and this netmaster ends
		t.Fatal(err)
	}
	b.want("proven:root", "POST", mastercfg.RotateKeysPath, `{}`, 200, `"step":"again","done":false`)
	first := replace(true, `"step":"turn","done":true,"resealed":1,"left":0`)
	second := replace(true, `"step":"turn","done":true,"resealed":1,"left":0`)
	if first == second {
		t.Error("another key changes nothing")
	}
	if is, err := keys.Open(place, second); is != password || err != nil {
		t.Errorf("it opens as %d bytes, %v", len(is), err)
	}
	for key, value := range storetest.Dump(b, b.db) {
		if strings.Contains(value, password) {
			t.Errorf("the store holds it at %s", key)
		}
	}
	if err := b.ledger.View(func(r ledger.Reader) error {
		record, err := ledger.Read[mastercfg.Security](r, mastercfg.SecurityKey)
		if !record.Sealed {
			t.Error("the next ones are not sealed")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.want("proven:root", "POST", "/api/v1/Bgps/h9/", `{"hostname":"h9","routerip":"192.0.2.9/24","as":"65001","neighbor":"192.0.2.1","neighbor-as":"65002","password":"enc:v1:mine"}`, 500, "password: begins as what netmasters seal does")
}
