package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// furnished begins with a network, two groups and a policy in the tenant blue.
func furnished(t testing.TB, change ...func(*Config)) *bench {
	b := booted(t, change...)
	b.ok("POST", "tenants/blue", `{"tenantName":"blue"}`)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`)
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"web"}`)
	return b
}

func TestProfileReachesTheGroupsThatHaveIt(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold","bandwidth":"10 Mbps","DSCP":10,"burst":100}`)
	before := storetest.Dump(t, b.db)
	limits := func() [3]any {
		rec := record[mastercfg.EndpointGroupState](b, mastercfg.EndpointGroupPrefix+"front:blue")
		return [3]any{rec.Bandwidth, rec.DSCP, rec.Burst}
	}
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","netProfile":"gold"}`)
	if got := limits(); got != [3]any{"10 Mbps", 10, 100} {
		t.Errorf("with the profile: %v", got)
	}
	b.ok("POST", "netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold","bandwidth":"20 Mbps","burst":200}`)
	if got := limits(); got != [3]any{"20 Mbps", 0, 200} {
		t.Errorf("with the changed profile: %v", got)
	}
	b.refused("DELETE", "netprofiles/blue:gold", "", "NetProfile is being used", 409, "in-use")
	b.ok("POST", "netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold","bandwidth":"10 Mbps","DSCP":10,"burst":100}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web"}`)
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// Pods of Kubernetes that request a profile use it, and get its changes.
func TestProfileReachesThePodsThatAskForIt(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold","bandwidth":"10 Mbps"}`)
	write := func(do func(tx *ledger.Tx) error) {
		t.Helper()
		if _, err := b.ledger.Update(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	asks, other := mastercfg.K8sPodKey("h1", "u1"), mastercfg.K8sPodKey("h1", "u2")
	write(func(tx *ledger.Tx) error {
		gold := mastercfg.K8sProfile{Name: "gold", Bandwidth: "10 Mbps"}
		return errors.Join(ledger.Write(tx, asks, mastercfg.K8sPod{Namespace: "shop", Name: "web", UID: "u1", Tenant: "blue", Profile: gold}),
			ledger.Write(tx, other, mastercfg.K8sPod{Namespace: "shop", Name: "db", UID: "u2", Tenant: "red", Profile: gold}))
	})
	b.ok("POST", "netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold","bandwidth":"20 Mbps","DSCP":7,"burst":200}`)
	if got, want := record[mastercfg.K8sPod](b, asks).Profile, (mastercfg.K8sProfile{Name: "gold", Bandwidth: "20 Mbps", DSCP: 7, Burst: 200}); got != want {
		t.Errorf("of the pod: %+v, want %+v", got, want)
	}
	if got := record[mastercfg.K8sPod](b, other).Profile.Bandwidth; got != "10 Mbps" {
		t.Errorf("of a pod of another tenant: %s", got)
	}
	b.refused("DELETE", "netprofiles/blue:gold", "", "NetProfile is being used", 409, "in-use")
	write(func(tx *ledger.Tx) error {
		tx.Delete(asks)
		return nil
	})
	b.ok("DELETE", "netprofiles/blue:gold", "")
}

func TestAppProfileHoldsItsGroups(t *testing.T) {
	b := furnished(t)
	before := storetest.Dump(t, b.db)
	b.ok("POST", "appProfiles/blue:one", `{"tenantName":"blue","appProfileName":"one","endpointGroups":["front","back"]}`)
	b.ok("POST", "appProfiles/blue:two", `{"tenantName":"blue","appProfileName":"two","endpointGroups":["front"]}`)
	held := func(profile string) {
		t.Helper()
		b.refused("DELETE", "endpointGroups/blue:front", "", "Cannot delete front, associated to appProfile "+profile, 409, "in-use")
	}
	held("blue:one")
	b.refused("DELETE", "tenants/blue", "", "cannot delete blue, has 2 app profiles", 409, "in-use")
	b.ok("POST", "appProfiles/blue:two", `{"tenantName":"blue","appProfileName":"two"}`)
	held("blue:one")
	b.ok("POST", "appProfiles/blue:two", `{"tenantName":"blue","appProfileName":"two","endpointGroups":["front"]}`)
	b.ok("DELETE", "appProfiles/blue:one", "")
	held("blue:two") // which lists it too
	if got := b.ok("GET", "endpointGroups/blue:back", ""); !strings.Contains(got, `"AppProfile":{}`) {
		t.Errorf("a group of no profile: %s", got)
	}
	b.ok("DELETE", "appProfiles/blue:two", "")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
	b.ok("DELETE", "endpointGroups/blue:front", "")
}

func TestFabricConnectionCountsProfiles(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "aciGws/aciGw", `{"name":"aciGw","enforcePolicies":"yes","includeCommonTenant":"no","physicalDomain":"dom"}`)
	b.ok("POST", "appProfiles/blue:app", `{"tenantName":"blue","appProfileName":"app"}`)
	if got := b.ok("GET", "inspect/aciGws/aciGw", ""); !strings.Contains(got, `"Oper":{"numAppProfiles":1}`) {
		t.Errorf("inspect: %s", got)
	}
	b.refused("DELETE", "aciGws/aciGw", "", "1 App-Profiles found. Delete them first", 409, "in-use")
	b.ok("DELETE", "appProfiles/blue:app", "")
	b.ok("DELETE", "aciGws/aciGw", "")
}
