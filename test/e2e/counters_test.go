package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testbed"
)

var counterChapters = []chapter{
	{"what rules decided and endpoints sent and received is told by agents and netctl alike, and survives the agents", trafficIsCounted},
}

// pings is the number of pings sent each time.
const pings = 20

// counts is the answer of agents at /inspect/counters.
type counts struct {
	Rules     map[string]contivmodel.RuleCounters
	Endpoints map[string]contivmodel.EndpointCounters
}

func trafficIsCounted(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	for group, action := range map[string]string{"open": "allow", "shut": "deny"} {
		s.netctlForNow("policy create -t blue "+group, "policy rm -t blue "+group)
		s.netctl(strings.Fields(fmt.Sprintf("policy rule-add -t blue -d in -l icmp -j %s %s pings", action, group))...)
		s.netctlForNow(fmt.Sprintf("group create -t blue -p %[1]s front %[1]s", group), "group rm -t blue "+group)
	}
	from := s.pod(0, "from", "blue", "front", "")
	open, shut := s.pod(1, "open", "blue", "front", "open"), s.pod(1, "shut", "blue", "front", "shut")
	s.soon(shortly, func() error { // the first packet to a node may be lost; all pings have to be counted
		out, err := from.Run(s.ctx, from.Probe(), "reach", "-wait", "1s", "-tcp", net.JoinHostPort(shut.IP.String(), tcpPort))
		if err == nil && !strings.Contains(out, shut.Name) {
			err = fmt.Errorf("%s does not reach %s: %s", from.Name, shut.Name, out)
		}
		return err
	})
	for round := uint64(1); round <= 2; round++ {
		if got := s.ping(from, open); got != pings {
			s.Fatalf("%d of %d pings are answered", got, pings)
		}
		if got := s.ping(from, shut); got != 0 {
			s.Fatalf("%d pings pass that a rule denies", got)
		}
		s.areCounted(open, round*pings)
		for _, n := range s.bed.Nodes {
			s.must(n.Netplugin().Kill())
			s.must(n.StartNetplugin())
			s.must(n.WaitReady(s.ctx))
		}
		s.areCounted(open, round*pings)
	}
	got, err := agentTells(s.ctx, open.Node, "/inspect/driver")
	s.must(err)
	if strings.Contains(strings.ToLower(got.body), "packets") {
		s.Errorf("counters are in the state of the driver: %s", got.body)
	}
}

// ping sends pings and returns how many were answered.
func (s story) ping(from, to *testbed.Pod) int {
	s.Helper()
	out, err := from.Run(s.ctx, "sh", "-c", fmt.Sprintf("ping -c %d -i 0.01 -W 1 -n %s || true", pings, to.IP))
	s.must(err)
	return strings.Count(out, "bytes from")
}

// areCounted expects a number of allowed and as many denied pings soon: the switch
// counts a moment behind. Allowed ones have been decided about on both nodes.
func (s story) areCounted(receiver *testbed.Pod, want uint64) {
	s.Helper()
	s.soon(shortly, func() error {
		if got := s.pingsCounted("open"); got != 2*want {
			return fmt.Errorf("%d allowed pings are counted, want twice %d", got, want)
		}
		if got := s.pingsCounted("shut"); got != want {
			return fmt.Errorf("%d denied pings are counted, want %d", got, want)
		}
		id, told := s.endpointCounts(receiver)
		if told.RxPackets != want || told.TxPackets < want || told.RxBytes < 84*want {
			return fmt.Errorf("netctl tells of %s %+v, want %d packets received", id, told, want)
		}
		if here := s.countsOf(receiver.Node).Endpoints[id]; here.RxPackets != want {
			return fmt.Errorf("%s tells of %s %+v, want %d packets received", receiver.Node.Name, id, here, want)
		}
		return nil
	})
}

// pingsCounted returns the packets that netctl shows for the rule of a group, and 0 unless that is the sum of the
// agents' counts.
func (s story) pingsCounted(group string) uint64 {
	s.Helper()
	var sum uint64
	for _, n := range s.bed.Nodes {
		for id, rule := range s.countsOf(n).Rules {
			if strings.Contains(id, ":"+group+":pings:") {
				sum += rule.Packets
			}
		}
	}
	out := s.netctl(strings.Fields("policy rule-ls -t blue -o wide " + group)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	cells := strings.Fields(lines[len(lines)-1]) // ... action, packets, bytes
	told, err := strconv.ParseUint(cells[max(0, len(cells)-2)], 10, 64)
	s.must(err)
	if told != sum {
		s.Logf("netctl tells of %d packets, agents of %d", told, sum)
		return 0
	}
	return told
}

// countsOf returns the counters of the agent of a node.
func (s story) countsOf(n *testbed.Node) (all counts) {
	s.Helper()
	got, err := agentTells(s.ctx, n, "/inspect/counters")
	s.must(err)
	s.must(json.Unmarshal([]byte(got.body), &all))
	return all
}

// endpointCounts returns the counters that netctl shows for the endpoint of a pod.
func (s story) endpointCounts(pod *testbed.Pod) (id string, told contivmodel.EndpointCounters) {
	s.Helper()
	var all []contivmodel.EndpointOper
	s.must(json.Unmarshal([]byte(s.netctl(strings.Fields("endpoint ls -t "+pod.Tenant+" -o json")...)), &all))
	for _, ep := range all {
		if slices.Contains(ep.IPAddress, pod.IP.String()) {
			var shown contivmodel.EndpointInspect
			s.must(json.Unmarshal([]byte(s.netctl("endpoint", "inspect", ep.EndpointID)), &shown))
			if shown.Oper.Counters != nil {
				told = *shown.Oper.Counters
			}
			return ep.Network + "-" + ep.EndpointID, told
		}
	}
	return "", told
}
