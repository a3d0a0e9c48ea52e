package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The store shows the rules of a tenant to this node as long as it has one endpoint of the tenant here: then rules that it lacks are deleted.
func TestRulesAreKeptOnlyWhileAllContainersOfTheirTenantAreUnknown(t *testing.T) {
	rule := mastercfg.PolicyRulePrefix + blueRule
	h := newHeld(Config{Shown: true})
	var at Attachment
	at.Network.Tenant = "blue"
	for i := range 20 {
		id := fmt.Sprint("web.blue-", i)
		h.attached[id] = at
		if h.keep(epKey(id), false, time.Time{}); i == 0 {
			delete(h.absent, epKey(id))
		}
	}
	for range 20 { // in whatever order they are looked at
		if h.needs(rule) {
			t.Fatal("a rule is kept that the store would show")
		}
	}
	h.absent[epKey("web.blue-0")] = time.Time{}
	if !h.needs(rule) {
		t.Error("a rule is not kept that the store does not show")
	}
	if h.shown = false; h.needs(rule) {
		t.Error("a rule is kept by a node that sees all rules")
	}
}
