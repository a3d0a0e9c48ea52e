package api

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/fault"
)

// The refusal of a tag, or of a range, has the value and its owner, in the text of the original and after it; the
// refusal for a tenant's user has nothing about other tenants.
func TestRefusalsOfTagsAndRangesNameValueAndOwner(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	const root = "proven:root"
	net := func(tenant, name, subnet, more string) string {
		return `{"tenantName":"` + tenant + `","networkName":"` + name + `","subnet":"` + subnet + `",` + more + `}`
	}
	for _, made := range [][2]string{
		{"globals/global", `{"name":"global","vlans":"1-100","vxlans":"1-2000","pvtSubnet":"172.19.0.0/16"}`},
		{"tenants/blue", `{"tenantName":"blue","vxlans":"1000-1100"}`},
		{"networks/red:theirs", net("red", "theirs", "10.21.0.0/24", `"encap":"vxlan","pktTag":1077`)},
		{"networks/red:lan", net("red", "lan", "10.22.0.0/24", `"encap":"vlan","pktTag":77`)},
		{"endpointGroups/red:a", `{"tenantName":"red","groupName":"a","networkName":"lan"}`}, // which has that VLAN as well
		{"networks/blue:own", net("blue", "own", "10.23.0.0/24", `"encap":"vxlan","pktTag":1078`)},
		{"endpointGroups/blue:g", `{"tenantName":"blue","groupName":"g","networkName":"own","ipPool":"10.23.0.10-10.23.0.20"}`},
	} {
		b.want(root, "POST", made[0], made[1], 200, "")
	}
	for _, c := range []struct {
		who, path, body string
		message         string
		details         []string
	}{
		{root, "networks/blue:x", net("blue", "x", "10.30.0.0/24", `"encap":"vxlan","pktTag":1077`),
			"requested vxlan not available: pktTag 1077 is that of network theirs of tenant red", []string{"network red:theirs"}},
		{ann, "networks/blue:x", net("blue", "x", "10.30.0.0/24", `"encap":"vxlan","pktTag":1077`),
			"requested vxlan not available: pktTag 1077 is that of a network of another tenant", nil},
		{ann, "networks/blue:x", net("blue", "x", "10.30.0.0/24", `"encap":"vxlan","pktTag":1078`),
			"requested vxlan not available: pktTag 1078 is that of network own of tenant blue", []string{"network blue:own"}},
		{root, "networks/blue:x", net("blue", "x", "10.30.0.0/24", `"encap":"vxlan","pktTag":2001`),
			"requested vxlan not available: pktTag 2001 is none of the vxlans of the cluster, 1-2000 (netctl global info)", nil},
		{root, "networks/blue:x", net("blue", "x", "10.30.0.0/24", `"encap":"vlan","pktTag":77`),
			"requested vlan not available - vlan:77: pktTag 77 is that of network lan of tenant red", []string{"network red:lan"}},
		{root, "networks/blue:x", net("blue", "x", "10.30.0.0/24", `"encap":"vlan","pktTag":101`),
			"requested vlan not available - vlan:101: pktTag 101 is none of the vlans of the cluster, 1-100 (netctl global info)", nil},
		{ann, "endpointGroups/blue:g", `{"tenantName":"blue","groupName":"g","networkName":"own","ipPool":"10.23.0.10-10.23.0.21"}`,
			`Cannot change IP pool after epg is created: endpointGroup blue:g has ipPool "10.23.0.10-10.23.0.20", which "10.23.0.10-10.23.0.21" would be instead: delete it and make it anew`, nil},
		{ann, "endpointGroups/blue:g", `{"tenantName":"blue","groupName":"g","networkName":"other","ipPool":"10.23.0.10-10.23.0.20"}`,
			`Cannot change network association after epg is created: endpointGroup blue:g has networkName "own", which "other" would be instead: delete it and make it anew`, nil},
	} {
		headers := []string{auth.TokenHeader, c.who}
		if c.who == root {
			headers = []string{provenHeader, "root"}
		}
		_, answer, _ := b.do("POST", c.path, c.body, append(headers, "Accept", fault.ProblemType)...)
		var p fault.Problem
		if err := json.Unmarshal([]byte(answer), &p); err != nil || p.Message != c.message || !slices.Equal(p.Details, c.details) {
			t.Errorf("%.30s %s: %v\n got %q %q\nwant %q %q", c.who, c.body, err, p.Message, p.Details, c.message, c.details)
		}
	}
}
