package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// A dry run of one change gets the answer of the change, or its refusal; nothing is stored.
func TestOneChangeMayBeTried(t *testing.T) {
	b := ready(t)
	b.applying("", shop...)
	full := storetest.Dump(t, b.db)
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "networks/shop:new/?dryRun=true", `{"tenantName":"shop","networkName":"new","encap":"vxlan","subnet":"10.8.0.0/24"}`, 200, `"networkName":"new"`},
		{"PUT", "endpointGroups/shop:front/?dryRun=1", `{"tenantName":"shop","groupName":"front","networkName":"web","netProfile":"gold"}`, 200, `"netProfile":"gold"`},
		{"DELETE", "serviceLBs/shop:s/?dryRun=true", ``, 200, "shop:s"},
		{"POST", "networks/none:new/?dryRun=true", `{"tenantName":"none","networkName":"new","encap":"vxlan","subnet":"10.8.0.0/24"}`, 500, "Tenant not found"},
		{"DELETE", "tenants/shop/?dryRun=true", ``, 500, "shop"},
		{"POST", "tenants/x/?dryRun=perhaps", `{"tenantName":"x"}`, 500, "dryRun perhaps"},
	} {
		code, answer, _ := b.do(c.method, "/api/v1/"+c.path, c.body)
		if code != c.code || !strings.Contains(answer, c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, code, answer, c.code, c.want)
		}
		b.same(c.method+" "+c.path, storetest.Dump(t, b.db), full)
	}
	if code, _, _ := b.do("DELETE", "/api/v1/serviceLBs/shop:s/?dryRun=true", "", "If-Match", `"1"`, "Accept", fault.ProblemType); code != 412 {
		t.Errorf("one of another revision: %d", code)
	}
}

// A dry run is never replaced by the change itself, on any route.
func TestAChangeThatCannotBeTriedIsRefused(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	full, refused := storetest.Dump(t, b.db), 0
	for _, route := range slices.Concat(b.api.allRoutes(), b.api.logins.Routes()) {
		for path := range matrix[route.Path] {
			for method := range route.Methods {
				if route.Tried || method == http.MethodGet {
					continue
				}
				refused++
				if code, answer, _ := b.as("proven:root", method, path+"?dryRun=true", ""); code < 400 || !strings.Contains(answer, "cannot be tried") {
					t.Errorf("%s %s: %d %s", method, path, code, answer)
				}
			}
		}
	}
	b.same("tried", storetest.Dump(t, b.db), full)
	if refused < 30 {
		t.Errorf("only %d changes were tried", refused)
	}
}
