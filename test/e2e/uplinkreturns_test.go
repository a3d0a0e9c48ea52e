package e2e

import (
	"fmt"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// anUplinkReturns pulls the cable of a node and puts it in again: an external router with wrong neighbour entries
// for the pods is corrected, although the pods send nothing.
func anUplinkReturns(s story) {
	s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	s.tenant("blue")
	s.onVLAN("lan", lanVLAN, lanRouter4, lanRouter6)
	pods := []*testbed.Pod{s.pod(0, "lan1", "blue", "lan", ""), s.pod(0, "lan2", "blue", "lan", "")}
	s.reachEachOther(shortly, pods...)
	wrong := "02:00:00:00:00:99"
	bridge := fmt.Sprint("vlan", lanVLAN)
	port := s.bed.Outside.Port(s.bed.Nodes[0], 1)
	out := func(script string) string {
		text, err := s.bed.Outside.Run(s.ctx, "sh", "-ec", script)
		s.must(err)
		return text
	}
	out("ip link set " + port + " down")
	s.checks(s.bed.Nodes[0], "uplinks", false, testbed.UplinkName(1), "see docs/operations.md, The uplink")
	for _, p := range pods {
		for _, address := range []string{p.IP.String(), s.ipv6Of(p).String()} {
			out(fmt.Sprintf("ip neighbour replace %s lladdr %s dev %s nud stale", address, wrong, bridge))
		}
	}
	out("ip link set " + port + " up")
	s.soon(shortly, func() error {
		if known := out("ip neighbour show dev " + bridge); strings.Contains(known, wrong) {
			return fmt.Errorf("the router still believes:\n%s", known)
		}
		return nil
	})
	s.checks(s.bed.Nodes[0], "uplinks", true)
	for _, p := range pods {
		s.pings(s.bed.Outside, p.IP.String())
	}
}
