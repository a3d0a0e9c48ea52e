package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Of several fields that are wrong, a refusal names the first, whenever it is asked.
func TestARefusalNamesTheSameFieldEachTime(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced, func(c *Config) { c.Keyring = keyring.In(t.TempDir()) })
	before := storetest.Dump(b, b.db)
	long := `"` + strings.Repeat("x", 5000) + `"`
	for _, c := range []struct {
		who, method, path, body, field string
		code                           int
	}{
		{"", "POST", openIDLoginPath + "/", `{}`, "code", 400},
		{"proven:root", "PUT", directoryPath + "/", `{"service_account_password":"x"}`, "server", 400},
		{"proven:root", "PUT", providerPath + "/", `{"issuer":` + long + `,"client_id":` + long + `}`, "issuer", 400},
		{"proven:root", "POST", usersPath + "/", `{"username":"x","password":"` + goodPassword + `","first_name":` + long + `,"last_name":` + long + `}`, "first_name", 413},
	} {
		for range 20 { // of maps, Go draws the order each time
			b.want(c.who, c.method, c.path, c.body, c.code, c.field+": ")
		}
	}
	if diff := cmp.Diff(before, storetest.Dump(b, b.db)); diff != "" {
		t.Errorf("something was stored: %s", diff)
	}
}
