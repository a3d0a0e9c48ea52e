package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// lives has an object of every kind but the global one, which cannot be created twice: its creation, an update,
// and its records in the store.
var lives = []struct {
	given                [][2]string // existing objects: path, object
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
	{
		path:    "tenants/red",
		create:  `{"tenantName":"red","defaultNetwork":"lan"}`,
		created: `{"key":"red","defaultNetwork":"lan","tenantName":"red","link-sets":{}}`,
	},
	{
		path:   "networks/blue:six",
		create: `{"tenantName":"blue","networkName":"six","encap":"vlan","subnet":"10.6.0.10-10.6.0.20/24","pktTag":7,"ipv6Subnet":"fd00::/64","ipv6Gateway":"fd00::1","cfgdTag":"t"}`,
		created: `{"key":"blue:six","cfgdTag":"t","encap":"vlan","ipv6Gateway":"fd00::1","ipv6Subnet":"fd00::/64","networkName":"six","nwType":"data","pktTag":7,` +
			`"subnet":"10.6.0.10-10.6.0.20/24","tenantName":"blue","link-sets":{},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
	},
	{
		path:   "networks/blue:contivh1",
		create: `{"tenantName":"blue","networkName":"contivh1","nwType":"infra","encap":"vxlan","subnet":"10.6.0.0/24"}`,
		created: `{"key":"blue:contivh1","encap":"vxlan","networkName":"contivh1","nwType":"infra","subnet":"10.6.0.0/24","tenantName":"blue",` +
			`"link-sets":{},"links":{"Tenant":{"type":"tenant","key":"blue"}}}`,
	},
	{
		given: [][2]string{
			{"policys/blue:p", `{"tenantName":"blue","policyName":"p"}`},
			{"rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"deny","protocol":"udp","port":53}`},
			{"netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold","bandwidth":"1g","DSCP":9,"burst":5}`},
			{"extContractsGroups/blue:c", `{"tenantName":"blue","contractsGroupName":"c","contractsType":"provided"}`},
		},
		path: "endpointGroups/blue:mid",
		create: `{"tenantName":"blue","groupName":"mid","networkName":"web","ipPool":"10.7.0.10-10.7.0.12","cfgdTag":"t",` +
			`"policies":["p"],"netProfile":"gold","extContractsGrps":["c"]}`,
		update: `{"tenantName":"blue","groupName":"mid","networkName":"web","ipPool":"10.7.0.10-10.7.0.12","policies":["p"]}`,
		created: `{"key":"blue:mid","cfgdTag":"t","extContractsGrps":["c"],"groupName":"mid","ipPool":"10.7.0.10-10.7.0.12","netProfile":"gold","networkName":"web",` +
			`"policies":["p"],"tenantName":"blue","link-sets":{"ExtContractsGrps":{"blue:c":{"type":"extContractsGroup","key":"blue:c"}},` +
			`"Policies":{"blue:p":{"type":"policy","key":"blue:p"}}},"links":{"AppProfile":{},"NetProfile":{"type":"netprofile","key":"blue:gold"},` +
			`"Network":{"type":"network","key":"blue:web"},"Tenant":{"type":"tenant","key":"blue"}}}`,
		updated: `{"key":"blue:mid","cfgdTag":"t","groupName":"mid","ipPool":"10.7.0.10-10.7.0.12","networkName":"web","policies":["p"],"tenantName":"blue",` +
			`"link-sets":{"Policies":{"blue:p":{"type":"policy","key":"blue:p"}}},"links":{"AppProfile":{},"NetProfile":{},` +
			`"Network":{"type":"network","key":"blue:web"},"Tenant":{"type":"tenant","key":"blue"}}}`,
		records: map[string]string{
			"/contiv.io/state/policy/blue:mid:blue:p": `{"id":"blue:mid:blue:p","EpgPolicyKey":"blue:mid:blue:p","EndpointGroupID":3}`,
			"/contiv.io/state/policyRule/blue:mid:blue:p:blue:p:1:inRx": `{"id":"","RuleId":"blue:mid:blue:p:blue:p:1:inRx","Priority":1,"SrcEndpointGroup":0,` +
				`"DstEndpointGroup":3,"SrcIpAddr":"","DstIpAddr":"","IpProtocol":17,"SrcPort":0,"DstPort":53,"TcpFlags":"","Action":"deny"}`,
		},
	},
	{
		given: [][2]string{
			{"policys/blue:p", `{"tenantName":"blue","policyName":"p"}`},
			{"endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`},
		},
		path:   "rules/blue:p:1",
		create: `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"out","action":"allow","protocol":"tcp","port":80,"toEndpointGroup":"back"}`,
		created: `{"key":"blue:p:1","action":"allow","direction":"out","policyName":"p","port":80,"priority":1,"protocol":"tcp","ruleId":"1","tenantName":"blue",` +
			`"toEndpointGroup":"back","link-sets":{"Policies":{"blue:p":{"type":"policy","key":"blue:p"}}},` +
			`"links":{"MatchEndpointGroup":{"type":"endpointGroup","key":"blue:back"}}}`,
		records: map[string]string{
			"/contiv.io/state/policyRule/blue:front:blue:p:blue:p:1:outRx": `{"id":"","RuleId":"blue:front:blue:p:blue:p:1:outRx","Priority":1,"SrcEndpointGroup":2,` +
				`"DstEndpointGroup":1,"SrcIpAddr":"","DstIpAddr":"","IpProtocol":6,"SrcPort":80,"DstPort":0,"TcpFlags":"","Action":"allow"}`,
			"/contiv.io/state/policyRule/blue:front:blue:p:blue:p:1:outTx": `{"id":"","RuleId":"blue:front:blue:p:blue:p:1:outTx","Priority":1,"SrcEndpointGroup":1,` +
				`"DstEndpointGroup":2,"SrcIpAddr":"","DstIpAddr":"","IpProtocol":6,"SrcPort":0,"DstPort":80,"TcpFlags":"","Action":"allow"}`,
		},
	},
}

// surrounded begins with the objects that an object of lives needs.
func surrounded(t testing.TB, given [][2]string) *bench {
	b := furnished(t)
	for _, o := range given {
		b.ok("POST", o[0], o[1])
	}
	return b
}

func TestEveryKindHasALife(t *testing.T) {
	lived := map[string]bool{"globals": true, "volumes": true, "volumeProfiles": true}
	for _, o := range lives {
		segment, _, _ := strings.Cut(o.path, "/")
		lived[segment] = true
	}
	for _, kind := range contivmodel.Kinds() {
		if !lived[kind.Segment] {
			t.Errorf("no %s is made and deleted", kind.Type)
		}
	}
}

func TestTheGlobalObjectLeavesNothingBehind(t *testing.T) {
	b := start(t)
	before := storetest.Dump(t, b.db)
	b.ok("POST", "globals/global", `{"name":"global","fwdMode":"routing","vlans":"1-4094","vxlans":"1-10000","pvtSubnet":"172.19.0.0/16"}`)
	const want = `{"key":"global","arpMode":"flood","fwdMode":"bridge","name":"global","networkInfraType":"aci-opflex","pvtSubnet":"172.20.0.0/16","vlans":"5-9","vxlans":"100-200"}`
	if got := b.ok("PUT", "globals/global", want); got != want {
		t.Errorf("updated\n%s\nwant\n%s", got, want)
	}
	for key, want := range map[string]string{
		mastercfg.GlobalConfigKey: `{"id":"","nw-infra-type":"aci-opflex","fwd-mode":"bridge","arp-mode":"flood","pvt-subnet":"172.20.0.0/16"}`,
		mastercfg.GlobalStateKey:  `{"id":"","auto":{"VLANs":"5-9","VXLANs":"100-200"}}`,
		mastercfg.GlobalOperKey:   `{"id":"global","freeVXLANsStart":99}`,
	} {
		if diff := cmp.Diff(want, storetest.Dump(t, b.db)[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	b.ok("DELETE", "globals/global", "")
	if diff := cmp.Diff(before, storetest.Dump(t, b.db)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestObjectsLeaveNothingBehind(t *testing.T) {
	for _, o := range lives {
		t.Run(o.path, func(t *testing.T) {
			b := surrounded(t, o.given)
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
			b := surrounded(t, o.given)
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

// revisions returns the keys of the model and the state with their last change.
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
