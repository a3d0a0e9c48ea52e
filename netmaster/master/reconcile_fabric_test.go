package master_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// inFabric has a group with a VLAN of its own, and a rule the fabric enforces.
func inFabric(t testing.TB) *world {
	w := newWorld(t)
	w.post("globals/global", `{"name":"global","networkInfraType":"aci","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`)
	w.post("networks/default:lan", `{"tenantName":"default","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24"}`)
	w.post("policys/default:p", `{"tenantName":"default","policyName":"p"}`)
	w.post("rules/default:p:1", `{"tenantName":"default","policyName":"p","ruleId":"1","direction":"in","action":"allow"}`)
	w.post("endpointGroups/default:front", `{"tenantName":"default","groupName":"front","networkName":"lan","policies":["p"]}`)
	return w
}

func TestAFabricIsLeftAlone(t *testing.T) {
	w := inFabric(t)
	if got := w.reconcile(master.NewReconciler(w.ledger, w.entry)); got != nil {
		t.Errorf("repaired %q", got)
	}
}

func TestVLANsOfGroupsAreFoundAgain(t *testing.T) {
	w := inFabric(t)
	before := storetest.Dump(t, w.db)
	w.damage(mastercfg.VLANConfigKey, "")
	w.reconcile(master.NewReconciler(w.ledger, w.entry))
	if diff := cmp.Diff(before, storetest.Dump(t, w.db)); diff != "" {
		t.Error(diff)
	}
	w.damage(mastercfg.EndpointGroupPrefix+"front:default", "")
	w.reconcile(master.NewReconciler(w.ledger, w.entry))
	if rec := read[mastercfg.EndpointGroupState](w, mastercfg.EndpointGroupPrefix+"front:default"); rec.PktTag != 2 {
		t.Errorf("VLAN %d", rec.PktTag)
	}
}
