package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// TestLongRulesReachRunningConnectionsWithinASecond counts from the answer of netctl. The switches have priority,
// as those of a kernel have; netmaster and agents share the processors with all other processes.
func TestLongRulesReachRunningConnectionsWithinASecond(t *testing.T) {
	testkit.TakesLong(t)
	tellOn(t, testbed.Config{Nodes: 2, First: true}, []chapter{
		{"a rule among thousands of others ends and frees what runs between nodes, also to a service", runningConnectionsAreRuled},
	})
}

// A change of rules applies to open connections within ruleLimit of netctl's answer. A connection that has been
// cut off is silent for as long as denial, with ever longer gaps between two tries: it goes on within nextTry.
const (
	ruleLimit = time.Second
	denial    = 3 * time.Second
	nextTry   = 5 * time.Second
	denials   = 3
	crowd     = 2000 // rules
)

func runningConnectionsAreRuled(s story) {
	s.tenant("blue")
	s.blueNetwork("lan", "-s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe")
	s.crowdedPolicy("guard")
	s.netctlForNow("group create -t blue -p guard lan guarded", "group rm -t blue guarded")
	s.service("web", "lan", lanVIP, lanVIP6, "")
	client, server := s.pod(0, "client", "blue", "lan", ""), s.pod(1, "server", "blue", "lan", "guarded")
	s.echoes(server)
	s.container("start", server, map[string]string{"app": "web"})
	s.reachEachOther(shortly, client, server)
	for _, vip := range []string{lanVIP, lanVIP6} {
		s.servedAt(vip, []*testbed.Pod{client}, server.Name)
	}

	var flows []flow
	for name, to := range map[string]netip.Addr{"pod": server.IP, "pod, IPv6": s.ipv6Of(server), "service": netip.MustParseAddr(lanVIP), "service, IPv6": netip.MustParseAddr(lanVIP6)} {
		udp := flow{name: "udp, " + name, from: client, to: to, every: 5 * time.Millisecond}
		tcp := udp
		tcp.name, tcp.tcp = "tcp, "+name, true
		flows = append(flows, udp, tcp)
	}
	for range denials {
		s.isCutOff(flows)
	}
}

// crowdedPolicy has rules about other ports, of all priorities and kinds.
func (s story) crowdedPolicy(name string) {
	s.Helper()
	s.netctlForNow("policy create -t blue "+name, "policy rm -t blue "+name)
	var rules []document
	for i := range crowd {
		rules = append(rules, worldRule{tenant: "blue", policy: name, id: fmt.Sprint("other", i), direction: []string{"in", "out"}[i%2], action: []string{"allow", "deny"}[i/2%2],
			protocol: []string{"tcp", "udp"}[i/4%2], port: 1000 + i, priority: 1 + i%100}.document())
	}
	file := filepath.Join(s.TempDir(), name+".yaml")
	s.must(os.WriteFile(file, []byte(inFile(rules...)), 0o644))
	s.netctl("apply", "-q", "-f", file)
}

// isCutOff denies running connections, and allows them again.
func (s story) isCutOff(flows []flow) {
	s.Helper()
	rule := strings.Fields("policy rule-add -t blue -d in -p 50 -j deny guard shut")
	var denied, allowed time.Time
	reports := s.whileFlowing(flows, func() {
		s.pause(time.Second / 2) // each has answers by then
		asked := time.Now()
		s.netctl(rule...)
		denied = time.Now()
		s.pause(denial)
		s.netctl(strings.Fields("policy rule-rm -t blue guard shut")...)
		allowed = time.Now()
		s.pause(nextTry)
		s.Logf("netctl had its answer after %s", denied.Sub(asked))
	})
	for i, r := range reports {
		within := ruleLimit
		if flows[i].tcp {
			within = nextTry
		}
		ended := r.GapAt.Sub(denied)
		resumed := r.GapAt.Add(time.Duration(r.MaxGapMS * float64(time.Millisecond))).Sub(allowed)
		s.Logf("%s ended %s after the denial, and went on %s after its end", flows[i].name, ended, resumed)
		if ended > ruleLimit {
			s.Errorf("%s went on for %s when it was denied", flows[i].name, ended)
		}
		if resumed < -ruleLimit || resumed > within {
			s.Errorf("%s went on %s after it was allowed, want at most %s", flows[i].name, resumed, within)
		}
	}
}
