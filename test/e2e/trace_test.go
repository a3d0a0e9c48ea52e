package e2e

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testbed"
)

// traces has the switches of two nodes trace packets between pods: one that arrives, and one with another pod's
// source.
func (s story) traces(from, to *testbed.Pod) {
	s.Helper()
	var all []contivmodel.EndpointOper
	s.must(json.Unmarshal([]byte(s.netctl(strings.Fields("endpoint ls -t "+from.Tenant+" -o json")...)), &all))
	at := slices.IndexFunc(all, func(ep contivmodel.EndpointOper) bool { return slices.Contains(ep.IPAddress, from.IP.String()) })
	if at < 0 {
		s.Fatalf("%s has no endpoint among %v", from.Name, all)
	}
	id := all[at].EndpointID
	if told := s.netctl("trace", id, to.IP.String()); !strings.Contains(told, "DELIVERED to ") || !strings.Contains(told, " on "+to.Node.Name+"\n") {
		s.Errorf("a packet from %s to %s:\n%s", from.Name, to.Name, told)
	}
	told, err := s.bed.Netctl(s.ctx, "trace", id, to.IP.String(), "--source", to.IP.String())
	if err == nil || !strings.Contains(told, "DROPPED on "+from.Node.Name+": ") {
		s.Errorf("a packet from %s with the address of %s: %v\n%s", from.Name, to.Name, err, told)
	}
}
