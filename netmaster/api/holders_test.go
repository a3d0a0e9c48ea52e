package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// held deletes an object that others hold and returns these.
func (b *bench) held(path, text string) []string {
	b.Helper()
	b.refused("DELETE", path, "", text, 409, "in-use")
	_, answer, _ := b.do("DELETE", path, "", "Accept", fault.ProblemType)
	var p fault.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		b.Fatal(err)
	}
	return p.Details
}

func TestARefusalNamesWhatHoldsTheObject(t *testing.T) {
	b := furnished(t)
	b.ok("POST", "aciGws/aciGw", `{"name":"aciGw","enforcePolicies":"yes","includeCommonTenant":"no","physicalDomain":"dom"}`)
	b.ok("POST", "appProfiles/blue:app", `{"tenantName":"blue","appProfileName":"app","endpointGroups":["back"]}`)
	b.endpoint("blue", "web", "", "c1")
	b.endpoint("blue", "web", "front", "c2")
	b.ok("POST", "networks/blue:six", `{"tenantName":"blue","networkName":"six","encap":"vlan","subnet":"10.6.0.0/24","ipv6Subnet":"fd00::/64"}`)
	for _, container := range []string{"c01", "c02", "c03", "c04", "c05", "c06", "c07", "c08", "c09", "c10", "c11"} {
		b.endpoint("blue", "six", "", container)
	}
	for _, c := range []struct {
		path, text string
		want       []string
	}{
		{"endpointGroups/blue:front", "Error: EPG front has active endpoints", []string{"endpoint web.blue-c2"}},
		{"endpointGroups/blue:back", "Cannot delete back, associated to appProfile blue:app", []string{"appProfile blue:app"}},
		{"aciGws/aciGw", "1 App-Profiles found. Delete them first", []string{"appProfile blue:app"}},
		{"networks/blue:web", "cannot delete web has 2 endpoint groups", []string{"endpointGroup blue:back", "endpointGroup blue:front"}},
	} {
		if diff := cmp.Diff(c.want, b.held(c.path, c.text)); diff != "" {
			t.Errorf("%s: %s", c.path, diff)
		}
	}
	if got := b.held("networks/blue:six", "Error: Network has active endpoints"); len(got) != 10 { // of 11
		t.Errorf("%d endpoints are named: %v", len(got), got)
	}
}

func TestWhatDockerHasInSwarmModeIsDockersToDelete(t *testing.T) {
	b := furnished(t, func(c *Config) { c.ClusterMode = "swarm-mode" })
	b.ok("POST", "networks/blue:free", `{"tenantName":"blue","networkName":"free","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.foreign(mastercfg.DockerNetworkKey("blue", "free", ""), `{"id":"blue.free.","tenantName":"blue","networkName":"free","serviceName":"","docknetUUID":"d1"}`)
	b.foreign(mastercfg.DockerNetworkKey("blue", "web", "front"), `{"id":"blue.web.front","tenantName":"blue","networkName":"web","serviceName":"front","docknetUUID":"d2"}`)
	b.held("networks/blue:free", "cannot delete network free mapped to docker network d1")
	b.held("endpointGroups/blue:front", "cannot delete group front mapped to docker network d2")
	b.ok("DELETE", "endpointGroups/blue:back", "")
	b.drop(mastercfg.DockerNetworkKey("blue", "free", ""))
	b.ok("DELETE", "networks/blue:free", "")
}

// Names may contain the dots of the key: blue.web and x have that of blue and web.x.
func TestDockerHasNetworksOfOneTenantOnly(t *testing.T) {
	b := furnished(t, func(c *Config) { c.ClusterMode = "swarm-mode" })
	b.ok("POST", "networks/blue:web.x", `{"tenantName":"blue","networkName":"web.x","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.ok("POST", "tenants/blue.web", `{"tenantName":"blue.web"}`)
	b.ok("POST", "networks/blue.web:x", `{"tenantName":"blue.web","networkName":"x","encap":"vxlan","subnet":"10.8.0.0/24"}`)
	b.foreign(mastercfg.DockerNetworkKey("blue", "web.x", ""), `{"id":"blue.web.x.","tenantName":"blue","networkName":"web.x","docknetUUID":"d1"}`)
	b.ok("DELETE", "networks/blue.web:x", "")
	b.held("networks/blue:web.x", "cannot delete network web.x mapped to docker network d1")
}

func TestOtherModesKnowNoNetworksOfDockers(t *testing.T) {
	b := furnished(t)
	b.foreign(mastercfg.DockerNetworkKey("blue", "web", "front"), `{"id":"blue.web.front","docknetUUID":"d2"}`)
	b.ok("DELETE", "endpointGroups/blue:front", "")
}

// foreign writes a key as an agent does, without the ledger.
func (b *bench) foreign(key, value string) {
	b.Helper()
	if _, _, err := b.db.Txn(b.Context(), putTxn(key, value)); err != nil {
		b.Fatal(err)
	}
}
