package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
)

// restarted returns the global object after a leader has started with these modes.
func (b *bench) restarted(fwdMode, infra string) contivmodel.Global {
	b.Helper()
	b.api.config.Defaults = WithDefaults(contivmodel.Global{FwdMode: fwdMode, NetworkInfraType: infra})
	if err := b.api.Bootstrap(b.Context()); err != nil {
		b.Fatal(err)
	}
	var g contivmodel.Global
	if err := json.Unmarshal([]byte(b.ok("GET", "globals/global", "")), &g); err != nil {
		b.Fatal(err)
	}
	return g
}

func TestAFirstLeaderMakesTheGlobalObjectAndTheDefaultTenant(t *testing.T) {
	b := start(t)
	want := contivmodel.Global{Key: "global", Name: "global", ArpMode: "proxy", FwdMode: "bridge", NetworkInfraType: "default",
		PvtSubnet: "172.19.0.0/16", Vlans: "1-4094", Vxlans: "1-10000"}
	if diff := cmp.Diff(want, b.restarted("bridge", "")); diff != "" {
		t.Error(diff)
	}
	b.ok("GET", "tenants/default", "")
	b.ok("DELETE", "tenants/default", "")
	before := b.restarted("bridge", "")
	b.ok("GET", "tenants/default", "") // is back
	dump := storetest.Dump(t, b.db)
	if diff := cmp.Diff(before, b.restarted("bridge", "")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(dump, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("another start changed something: %s", diff)
	}
}

// The flag of the fabric need not be given.
func TestALaterLeaderWithoutAFabricKeepsTheStoredOne(t *testing.T) {
	b := booted(t)
	b.ok("POST", "globals/global", `{"name":"global","networkInfraType":"aci","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`)
	if got := b.restarted("routing", "").NetworkInfraType; got != "aci" {
		t.Errorf("fabric %q", got)
	}
}

func TestALaterLeaderAppliesItsModesAndKeepsTheRest(t *testing.T) {
	b := booted(t)
	const stored = `{"name":"global","fwdMode":"bridge","arpMode":"flood","vlans":"5-50","vxlans":"60-90","pvtSubnet":"172.20.0.0/16"}`
	b.ok("POST", "globals/global", stored)
	want := contivmodel.Global{Key: "global", Name: "global", ArpMode: "flood", FwdMode: "routing", NetworkInfraType: "aci",
		PvtSubnet: "172.20.0.0/16", Vlans: "5-50", Vxlans: "60-90"}
	if diff := cmp.Diff(want, b.restarted("routing", "aci")); diff != "" {
		t.Error(diff)
	}
	b.ok("POST", "networks/default:lan", `{"tenantName":"default","networkName":"lan","encap":"vlan","subnet":"10.8.0.0/24"}`)
	want.NetworkInfraType = "default" // the forwarding mode is refused, which does not hold the other up
	if diff := cmp.Diff(want, b.restarted("bridge", "default")); diff != "" {
		t.Error(diff)
	}
}
