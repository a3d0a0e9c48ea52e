package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// plantedName is in every name that no request has; plantedSubnet begins addresses that none has.
const (
	plantedName   = "zqx"
	plantedSubnet = "10.66.77."
)

// Tenants and names that requests guess. In the other cluster the objects have names that are as long.
const (
	guessed = "ghost"
	missed  = "blank"
)

// foreignBegin is when each cluster begins.
var foreignBegin = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// foreigners plants what tenant blue is not to learn of. name is the tenant with names that requests guess, or not.
func (b *bench) foreigners(name string) {
	b.Helper()
	b.ok("POST", "tenants/blue", `{"tenantName":"blue","vlans":"100-110","vxlans":"900-910","maxNetworks":8,"maxGroups":12,"maxServices":8,"maxRules":40}`)
	for _, o := range []struct{ path, body string }{
		{"policys/blue:p", `{"tenantName":"blue","policyName":"p"}`},
		{"rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"allow","protocol":"tcp","port":80}`},
		{"netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold","bandwidth":"10 Mbps"}`},
		{"endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`},
		{"serviceLBs/blue:svc", `{"tenantName":"blue","serviceName":"svc","networkName":"web","selectors":["app=a"],"ports":["80:80:TCP"]}`},
		{"aciGws/aciGw", `{"name":"aciGw","enforcePolicies":"yes","includeCommonTenant":"no","physicalDomain":"zqxdom"}`},
		{"Bgps/zqxnode", `{"hostname":"zqxnode","routerip":"192.0.2.9/24","as":"65001","neighbor":"192.0.2.1","neighbor-as":"65002"}`},
	} {
		b.ok("POST", o.path, o.body)
	}
	for i, t := range []string{name, plantedName + "ten"} {
		of := func(text string) string {
			return strings.NewReplacer("TT", t, "10.66.77", []string{"10.66.55", "10.66.77"}[i], "OCT", []string{"55", "77"}[i], "EIN", []string{"5", "7"}[i]).Replace(text)
		}
		for _, o := range []struct{ path, body string }{
			{"tenants/TT", `{"tenantName":"TT","vlans":"200-210","namespaces":"TT-ns"}`},
			{"netprofiles/TT:TT-prof", `{"tenantName":"TT","profileName":"TT-prof","bandwidth":"10 Mbps"}`},
			{"networks/TT:TT-net", `{"tenantName":"TT","networkName":"TT-net","encap":"vxlan","pktTag":90EIN,"subnet":"10.66.77.0/24","ipv6Subnet":"fd00:OCT::/64"}`},
			{"networks/TT:TT-lan", `{"tenantName":"TT","networkName":"TT-lan","encap":"vlan","pktTag":10EIN,"subnet":"172.16.OCT.0/24"}`},
			{"policys/TT:TT-pol", `{"tenantName":"TT","policyName":"TT-pol"}`},
			{"rules/TT:TT-pol:TT-rule", `{"tenantName":"TT","policyName":"TT-pol","ruleId":"TT-rule","direction":"in","action":"deny","fromIpAddress":"10.66.77.9"}`},
			{"endpointGroups/TT:TT-grp", `{"tenantName":"TT","groupName":"TT-grp","networkName":"TT-net","policies":["TT-pol"],"netProfile":"TT-prof"}`},
			{"extContractsGroups/TT:TT-con", `{"tenantName":"TT","contractsGroupName":"TT-con","contractsType":"provided","contracts":["TT-c"]}`},
			{"appProfiles/TT:TT-app", `{"tenantName":"TT","appProfileName":"TT-app","endpointGroups":["TT-grp"]}`},
			{"serviceLBs/TT:TT-svc", `{"tenantName":"TT","serviceName":"TT-svc","networkName":"TT-net","selectors":["app=a"],"ports":["80:80:TCP"],"externalIps":["203.0.113.OCT"],"nodePorts":["300OCT:80:tcp"]}`},
		} {
			b.ok("POST", of(o.path), of(o.body))
		}
		b.foreignEndpoint(t, t+"-net", t+"-grp", t+"-ep")
	}
	b.foreignEndpoint("blue", "web", "front", "own-ep")
	b.plan(func(tx *ledger.Tx) error {
		root := identity.Identity{Kind: identity.Root}
		for i, t := range []string{name, plantedName + "ten"} {
			if _, err := access.Bind(tx, plantedName+"user", false, rights.Grant{Role: rights.TenantAdmin, Tenant: t}); err != nil {
				return err
			}
			if _, _, err := access.CreateToken(tx, access.NewToken{Name: fmt.Sprintf("%stok%d", plantedName, i), Role: rights.Viewer, Tenants: []string{t}, Life: 24 * time.Hour, By: root}, foreignBegin); err != nil {
				return err
			}
		}
		return nil
	})
}

// foreignEndpoint makes an endpoint of a pod, as the node's agent.
func (b *bench) foreignEndpoint(tenant, network, group, name string) {
	b.Helper()
	plug[mastercfg.CreateEndpointResponse](b, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
		TenantName: tenant, NetworkName: network, EPCommonName: name, PodNamespace: tenant + "-ns", Labels: map[string]string{"app": "a"},
		ConfigEP: mastercfg.ConfigEP{Container: name, Host: "h1", ServiceName: group},
	})
}

// foreignWorld is a cluster with what others have, and the requests of one seed.
type foreignWorld struct {
	*bench
	*rand.Rand
	now   atomic.Int64
	asks  []string // tokens of who asks, by their names below
	route []rest.Route
}

// foreignAsks are who asks: each has rights in blue only, or none.
var foreignAsks = []string{"admin of blue", "admin of blue", "admin of blue", "viewer of blue", "token of blue", "bare", "nobody"}

func newForeignWorld(t *testing.T, name string, seed uint64) *foreignWorld {
	w := &foreignWorld{Rand: rand.New(rand.NewPCG(seed, 1))}
	w.bench = secured(t, mastercfg.SecurityOpen, func(c *Config) {
		c.HashCost = accounts.Cost{Memory: 8, Time: 1, Threads: 1}
		c.Now = func() time.Time { return foreignBegin.Add(time.Duration(w.now.Load())) }
	})
	w.foreigners(name)
	w.mode(mastercfg.SecurityEnforced)
	w.api.TellNetworkPolicies(func(_ context.Context, namespace, name string) (NetworkPolicy, error) {
		of := map[string]string{"blue-ns:p": "blue", guessed + "-ns:p": plantedName + "ten"}[namespace+":"+name]
		if of == "" {
			return NetworkPolicy{}, fault.New(fault.NotFound, "policy %s not found", plantedName)
		}
		return NetworkPolicy{Tenant: of, Nodes: []NetworkPolicyNode{
			{Name: "h1", Tenants: []string{of, plantedName + "ten"}}, {Name: plantedName + "node", Tenants: []string{plantedName + "ten"}, Lacks: plantedName},
		}}, nil
	})
	made := map[string]string{
		"admin of blue":  w.userAt("ann", foreignBegin, rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"}),
		"viewer of blue": w.userAt("vic", foreignBegin, rights.Grant{Role: rights.Viewer, Tenant: "blue"}),
		"bare":           w.userAt("bea", foreignBegin),
	}
	w.plan(func(tx *ledger.Tx) (err error) {
		_, made["token of blue"], err = access.CreateToken(tx, access.NewToken{Name: "ci", Role: rights.TenantAdmin, Tenants: []string{"blue"}, Life: 24 * time.Hour, By: identity.Identity{Kind: identity.Root}}, foreignBegin)
		return err
	})
	for _, who := range foreignAsks {
		w.asks = append(w.asks, made[who])
	}
	w.route = slices.Concat(w.api.allRoutes(), w.api.logins.Routes())
	return w
}
