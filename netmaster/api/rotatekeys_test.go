package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// Secrets are encrypted with another key once every registered netmaster has it, and can be decrypted as before.
func TestSecretsAreSealedWithAnotherKey(t *testing.T) {
	b, _ := directed(t)
	stored := func() string { return record[mastercfg.Directory](b, mastercfg.DirectoryKey).Password }
	rotate := func(body string, status int, wanted string) {
		t.Helper()
		b.want("proven:root", "POST", mastercfg.RotateKeysPath, body, status, wanted)
	}
	first := stored()
	rotate(`{}`, 200, `"step":"again"`) // a cluster of an earlier version: the record names no keyring
	master := objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.3", Port: 1, Keyring: record[mastercfg.Security](b, mastercfg.SecurityKey).Keyring}
	registered, err := b.db.Register(t.Context(), time.Minute, master)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registered.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, 20*time.Second, "it is registered", func() bool {
		all, err := b.db.Services(t.Context(), mastercfg.MasterService)
		return err == nil && len(all) == 1
	})
	rotate(`{"dryRun":true}`, 200, `"step":"add"`)
	rotate(`{}`, 200, `"step":"add","done":false`)
	rotate(`{}`, 500, "waits for the netmasters at 10.0.0.3")
	if stored() != first {
		t.Error("the secret is sealed anew already")
	}
	master.Keyring = record[mastercfg.Security](b, mastercfg.SecurityKey).Keyring
	registered.Update(master)
	testkit.Eventually(t, 20*time.Second, "it says that it has the key", func() bool {
		all, err := b.db.Services(t.Context(), mastercfg.MasterService)
		return err == nil && len(all) == 1 && all[0].Keyring == master.Keyring
	})
	rotate(`{"dryRun":true}`, 200, `"step":"turn"`)
	rotate(`{}`, 200, `"step":"turn","done":true,"resealed":1,"left":0`)
	now := stored()
	if id, _, _ := strings.Cut(strings.TrimPrefix(now, "enc:v1:"), ":"); strings.Contains(first, id) || record[mastercfg.Security](b, mastercfg.SecurityKey).Keyring != id {
		t.Errorf("sealed before as %s, now as %s", first, now)
	}
	b.login("ann", goodPassword)
}
