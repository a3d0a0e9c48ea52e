package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
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

// lives are the objects of the kinds that stand beside networks and groups:
// how one is made, what it may become, and what is stored of it.
var lives = []struct {
	path, create, update string
	created, updated     string            // as answered
	records              map[string]string // derived, after the update
}{
	{
		path:    "netprofiles/blue:gold",
		create:  `{"tenantName":"blue","profileName":"gold","bandwidth":"10 Mbps","DSCP":10,"burst":100}`,
		update:  `{"tenantName":"blue","profileName":"gold","bandwidth":"1g"}`,
		created: `{"key":"blue:gold","DSCP":10,"bandwidth":"10 Mbps","burst":100,"profileName":"gold","tenantName":"blue","link-sets":{},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
		updated: `{"key":"blue:gold","bandwidth":"1g","profileName":"gold","tenantName":"blue","link-sets":{},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
	},
	{
		path:    "Bgps/h1",
		create:  `{"hostname":"h1","routerip":"50.1.1.1/24","as":"65002","neighbor-as":"500","neighbor":"50.1.1.2"}`,
		update:  `{"hostname":"h1","routerip":"50.1.1.3/24","as":"65003"}`,
		created: `{"key":"h1","as":"65002","hostname":"h1","neighbor":"50.1.1.2","neighbor-as":"500","routerip":"50.1.1.1/24"}`,
		updated: `{"key":"h1","as":"65003","hostname":"h1","routerip":"50.1.1.3/24"}`,
		records: map[string]string{"/contiv.io/state/bgp/h1": `{"id":"h1","hostname":"h1","router-ip":"50.1.1.3/24","as":"65003","neighbor-as":"","neighbor":""}`},
	},
	{
		path:   "serviceLBs/blue:lb",
		create: `{"tenantName":"blue","serviceName":"lb","networkName":"web","selectors":["app=web"],"ports":["80:8080:TCP"],"ipAddress":"10.7.0.9"}`,
		update: `{"tenantName":"blue","serviceName":"lb","networkName":"web","selectors":["app=db","tier="],"ports":["53:5353:udp"]}`,
		created: `{"key":"blue:lb","ipAddress":"10.7.0.9","networkName":"web","ports":["80:8080:TCP"],"selectors":["app=web"],"serviceName":"lb","tenantName":"blue",` +
			`"links":{"Network":{"type":"network","key":"blue:web"},"Tenant":{"type":"tenant","key":"blue"}}}`,
		updated: `{"key":"blue:lb","networkName":"web","ports":["53:5353:udp"],"selectors":["app=db","tier="],"serviceName":"lb","tenantName":"blue",` +
			`"links":{"Network":{"type":"network","key":"blue:web"},"Tenant":{"type":"tenant","key":"blue"}}}`,
		records: map[string]string{
			"/contiv.io/state/serviceLB/lb:blue": `{"id":"lb:blue","servicename":"lb","tenantname":"blue","subnet":"web","ports":["53:5353:udp"],` +
				`"selectors":{"app":"db","tier":""},"ipaddress":"10.7.0.9"}`,
			"/contiv.io/state/provider/lb:blue": `{"id":"lb:blue","ServiceName":"lb:blue","Providers":[]}`,
		},
	},
	{
		path:    "extContractsGroups/blue:c",
		create:  `{"tenantName":"blue","contractsGroupName":"c","contractsType":"consumed","contracts":["uni/tn-common/brc-web"]}`,
		created: `{"key":"blue:c","contracts":["uni/tn-common/brc-web"],"contractsGroupName":"c","contractsType":"consumed","tenantName":"blue","link-sets":{}}`,
	},
	{
		path:   "appProfiles/blue:app",
		create: `{"tenantName":"blue","appProfileName":"app","endpointGroups":["front","back","front"]}`,
		update: `{"tenantName":"blue","appProfileName":"app","endpointGroups":["back"]}`,
		created: `{"key":"blue:app","appProfileName":"app","endpointGroups":["front","back"],"tenantName":"blue","link-sets":{"EndpointGroups":` +
			`{"blue:back":{"type":"endpointGroup","key":"blue:back"},"blue:front":{"type":"endpointGroup","key":"blue:front"}}},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
		updated: `{"key":"blue:app","appProfileName":"app","endpointGroups":["back"],"tenantName":"blue","link-sets":{"EndpointGroups":` +
			`{"blue:back":{"type":"endpointGroup","key":"blue:back"}}},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
	},
	{
		path:    "aciGws/aciGw",
		create:  `{"name":"aciGw","enforcePolicies":"yes","includeCommonTenant":"no","physicalDomain":"dom","pathBindings":"topology/pod-1/paths-101/pathep-[eth1/10]"}`,
		update:  `{"name":"aciGw","enforcePolicies":"no","includeCommonTenant":"no","physicalDomain":"dom","nodeBindings":"topology/pod-1/node-101,topology/pod-1/node-102"}`,
		created: `{"key":"aciGw","enforcePolicies":"yes","includeCommonTenant":"no","name":"aciGw","pathBindings":"topology/pod-1/paths-101/pathep-[eth1/10]","physicalDomain":"dom"}`,
		updated: `{"key":"aciGw","enforcePolicies":"no","includeCommonTenant":"no","name":"aciGw","nodeBindings":"topology/pod-1/node-101,topology/pod-1/node-102","physicalDomain":"dom"}`,
	},
	{
		path:    "policys/blue:p",
		create:  `{"tenantName":"blue","policyName":"p"}`,
		update:  `{"tenantName":"blue","policyName":"p"}`,
		created: `{"key":"blue:p","policyName":"p","tenantName":"blue","link-sets":{},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
		updated: `{"key":"blue:p","policyName":"p","tenantName":"blue","link-sets":{},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
	},
}

func TestObjectsLeaveNothingBehind(t *testing.T) {
	for _, o := range lives {
		t.Run(o.path, func(t *testing.T) {
			b := furnished(t)
			before := storetest.Dump(t, b.db)
			if got := b.ok("POST", o.path, o.create); got != o.created {
				t.Errorf("created\n%s\nwant\n%s", got, o.created)
			}
			if o.update != "" {
				if got := b.ok("PUT", o.path, o.update); got != o.updated {
					t.Errorf("updated\n%s\nwant\n%s", got, o.updated)
				}
				if got := b.ok("GET", o.path, ""); got != o.updated {
					t.Errorf("stored\n%s\nwant\n%s", got, o.updated)
				}
			}
			stored := storetest.Dump(t, b.db)
			for key, want := range o.records {
				if diff := cmp.Diff(want, stored[key]); diff != "" {
					t.Errorf("%s: %s", key, diff)
				}
			}
			segment, key, _ := strings.Cut(o.path, "/")
			if got := b.ok("GET", segment, ""); !strings.Contains(got, `"key":"`+key+`"`) {
				t.Errorf("list %s", got)
			}
			b.ok("GET", "inspect/"+o.path, "")
			if got := b.ok("DELETE", o.path, ""); got != `"`+key+`"` {
				t.Errorf("deleted %s", got)
			}
			if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

func TestTheSameUpdateTwiceWritesNothing(t *testing.T) {
	for _, o := range lives {
		if o.update == "" {
			continue
		}
		t.Run(o.path, func(t *testing.T) {
			b := furnished(t)
			b.ok("POST", o.path, o.create)
			b.ok("POST", o.path, o.update)
			before := revisions(b)
			b.ok("POST", o.path, o.update)
			if diff := cmp.Diff(before, revisions(b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// revisions are the keys of the model and the state with their last change.
func revisions(b *bench) map[string]int64 {
	b.Helper()
	all := map[string]int64{}
	for _, prefix := range []string{mastercfg.ModelRoot, mastercfg.StateRoot, mastercfg.OperRoot} {
		kvs, _, err := b.db.List(b.Context(), prefix)
		if err != nil {
			b.Fatal(err)
		}
		for _, kv := range kvs {
			all[kv.Key] = kv.ModRevision
		}
	}
	return all
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
