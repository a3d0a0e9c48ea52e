package history

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// All addresses of a network are the range of a group. An endpoint that names the group
// gets one of them, but not in a network of infrastructure, whose ports are in no group.
func TestARangeIsNotForPortsOfInfrastructure(t *testing.T) {
	const all = "10.1.0.10-10.1.0.11"
	for nwType, wanted := range map[string]string{"infra": "", "data": "refused without cause"} {
		s := newStory(t)
		s.post(&contivmodel.Network{Key: "t0:n1", TenantName: "t0", NetworkName: "n1", NwType: nwType, Encap: "vxlan", Subnet: all + "/24"})
		s.post(&contivmodel.EndpointGroup{Key: "t0:g0", TenantName: "t0", GroupName: "g0", NetworkName: "n1", IPPool: all})
		s.put(groupPrefix+"g0:t0", document{"IPPool": all})
		s.refused(CreateEndpoint, "endpoint", "n1.t0-c1", fault.Exhausted, "auto allocation failed - address exhaustion in subnet 10.1.0.0/24")
		s.calls[len(s.calls)-1].Request = &mastercfg.CreateEndpointRequest{TenantName: "t0", NetworkName: "n1",
			ConfigEP: mastercfg.ConfigEP{Container: "c1", ServiceName: "g0"}}
		found := ""
		for _, f := range s.findings() {
			if f.Check == "refusals" {
				found += f.Text
			}
		}
		if wanted == "" && found != "" || !strings.Contains(found, wanted) {
			t.Errorf("%s: want %q, found %q", nwType, wanted, found)
		}
	}
}
