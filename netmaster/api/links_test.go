package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// checkLinks requires that every link of every object leads to an object that
// leads back.
func (b *bench) checkLinks() {
	b.Helper()
	kvs, _, err := b.db.List(b.Context(), mastercfg.ModelRoot)
	if err != nil {
		b.Fatal(err)
	}
	links := map[contivmodel.Link][]contivmodel.Link{}
	for _, kv := range kvs {
		objType, key, _ := strings.Cut(strings.TrimPrefix(kv.Key, mastercfg.ModelRoot), "/")
		kind, _ := contivmodel.KindByType(objType)
		o := kind.New()
		if err := json.Unmarshal([]byte(b.ok("GET", kind.Segment+"/"+key, "")), o); err != nil {
			b.Fatal(err)
		}
		from := contivmodel.Link{Type: objType, Key: key}
		links[from] = nil
		for _, relation := range contivmodel.Relations(o) {
			links[from] = append(links[from], relation.Links...)
		}
	}
	for from, all := range links {
		for _, to := range all {
			if back, exists := links[to]; !exists {
				b.Errorf("%s %s leads to %s %s, which is not there", from.Type, from.Key, to.Type, to.Key)
			} else if !slices.Contains(back, from) {
				b.Errorf("%s %s leads to %s %s, which does not lead back", from.Type, from.Key, to.Type, to.Key)
			}
		}
	}
}

func TestLinksOfAllKindsLeadBack(t *testing.T) {
	b := furnished(t)
	for _, step := range []struct{ method, path, body string }{
		{"POST", "networks/blue:lan", lan},
		{"POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`},
		{"POST", "policys/blue:q", `{"tenantName":"blue","policyName":"q"}`},
		{"POST", "rules/blue:p:1", `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"deny","fromEndpointGroup":"back"}`},
		{"POST", "netprofiles/blue:gold", `{"tenantName":"blue","profileName":"gold"}`},
		{"POST", "netprofiles/blue:lead", `{"tenantName":"blue","profileName":"lead"}`},
		{"POST", "extContractsGroups/blue:c", `{"tenantName":"blue","contractsGroupName":"c","contractsType":"provided"}`},
		{"POST", "extContractsGroups/blue:d", `{"tenantName":"blue","contractsGroupName":"d","contractsType":"consumed"}`},
		{"POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"],"netProfile":"gold","extContractsGrps":["c"]}`},
		{"POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["q"],"netProfile":"lead","extContractsGrps":["d","d"]}`},
		{"POST", "appProfiles/blue:a", `{"tenantName":"blue","appProfileName":"a","endpointGroups":["front","back"]}`},
		{"POST", "appProfiles/blue:a", `{"tenantName":"blue","appProfileName":"a","endpointGroups":["back"]}`},
		{"POST", "serviceLBs/blue:lb", lb},
		{"POST", "serviceLBs/blue:lb", with(lb)(`,"networkName":"lan"`)},
		{"DELETE", "endpointGroups/blue:front", ""},
		{"DELETE", "policys/blue:p", ""},
		{"DELETE", "appProfiles/blue:a", ""},
		{"DELETE", "serviceLBs/blue:lb", ""},
		{"DELETE", "endpointGroups/blue:back", ""},
	} {
		b.ok(step.method, step.path, step.body)
		b.checkLinks()
	}
}
