package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// TestLongNothingIsLost disturbs everything but the switches while datagrams pass in
// every forwarding mode, and prints what was lost of which flow by what. In every mode
// there is a flow that was there before, and datagrams of which each is a new flow. A
// restart of the switches comes last: they cannot forward meanwhile, but soon after it.
//
// The switches are first in turn: in user space they would lose what waits for them while
// other tests use the processor.
func TestLongNothingIsLost(t *testing.T) {
	testkit.TakesLong(t)
	missing, other := inHistory(recent), ""
	if missing == nil {
		other = buildOf(t, recent)
	}
	var link sync.Once
	disturbed := func(s story, flows []flow, provider disturbance) {
		if missing != nil {
			s.Logf("without an upgrade: %v", missing)
			s.disturbed(flows, provider)
			return
		}
		own := s.bed.Bin
		link.Do(func() { linkTools(t, own, other) })
		s.disturbed(flows, provider,
			disturbance{"daemons are those of a version before", func(s story) { s.replaceDaemons(other) }},
			disturbance{"they are upgraded again", func(s story) { s.replaceDaemons(own) }})
	}
	tellOn(t, testbed.Config{Nodes: 3, Uplinks: 1, First: true}, []chapter{
		{"routed, in tunnels, on VLANs and to a service", func(s story) {
			flows, provider := s.routedFlows()
			disturbed(s, flows, provider)
		}},
		{"bridged, in tunnels, on VLANs, to a service and to the router outside", func(s story) {
			flows, provider := s.bridgedFlows()
			disturbed(s, flows, provider)
		}},
	})
}

// recent is a version that has all these flows, but not the tables where connections are looked at
// when the tracker has taken them in.
const recent = "92b7004"

// replaceDaemons gives all nodes those of another version, one after the other.
func (s story) replaceDaemons(bin string) {
	s.Helper()
	s.bed.Bin = bin
	for _, n := range s.bed.Nodes {
		s.must(n.Netmaster().Terminate())
		s.must(n.StartNetmaster())
		s.soon(stageLimit, func() error { return memberServes(s.ctx, n) })
		s.must(n.Netplugin().Terminate())
		s.must(n.StartNetplugin())
		s.must(n.WaitReady(s.ctx))
	}
}

// disturbance is what may happen to a cluster.
type disturbance struct {
	what string
	do   func(story)
}

var disturbances = []disturbance{
	{"agents are killed and start", func(s story) { s.restartAgents((*testbed.Process).Kill) }},
	{"agents stop and start", func(s story) { s.restartAgents((*testbed.Process).Terminate) }},
	{"the leader is killed", func(s story) { s.killLeader(s.leader()); s.startMasters() }},
	{"masters and store away for 60 s", func(s story) { s.killMasters(); s.pause(time.Minute); s.startMasters() }},
	{"a full audit", story.audited},
	{"a policy of others changes", story.othersPolicy},
}

// disturbanceLimit bounds each disturbance with what is sent meanwhile, switchBack how long
// after the return of a switch packets may be lost.
const (
	disturbanceLimit = 4 * time.Minute
	switchBack       = 3 * time.Second
)

// disturbed plays all disturbances, and those that only these flows have, and then
// restarts the switches.
func (s story) disturbed(flows []flow, own ...disturbance) {
	s.Helper()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "lost of sent")
	for _, f := range flows {
		fmt.Fprint(w, "\t", f.name)
	}
	fmt.Fprintln(w)
	for _, d := range append(disturbances, own...) {
		var reports []streamReport
		s.unlessUnread(func() (lost int) {
			started := time.Now()
			s, done := s.within(disturbanceLimit)
			defer done()
			reports = s.whileFlowing(flows, func() { d.do(s) })
			s.Logf("%s: took %s", d.what, time.Since(started))
			for _, r := range reports {
				lost += r.Lost
			}
			return lost
		})
		fmt.Fprint(w, d.what)
		for i, r := range reports {
			fmt.Fprintf(w, "\t%d of %d", r.Lost, r.Sent)
			if r.Lost != 0 || r.Sent == 0 {
				s.Errorf("%s: %s lost %d of %d", d.what, flows[i].name, r.Lost, r.Sent)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "switches are killed and start: back after")
	s, done := s.within(disturbanceLimit)
	defer done()
	for _, took := range s.restartSwitches(flows) {
		fmt.Fprintf(w, "\t%d ms", took.Milliseconds())
	}
	w.Flush()
	s.Logf("\n%s", &table)
}

// restartSwitches tells how long after the return of the last switch the last datagram
// of each flow was lost, and expects everything in the switches that was in them.
func (s story) restartSwitches(flows []flow) (took []time.Duration) {
	s.Helper()
	var before []string
	for _, n := range s.bed.Nodes {
		before = append(before, s.programmed(n))
	}
	var back time.Time
	reports := s.whileFlowing(flows, func() {
		for _, n := range s.bed.Nodes {
			s.must(n.KillVSwitchd())
		}
		for _, n := range s.bed.Nodes {
			s.must(n.StartOVS(s.ctx))
		}
		back = time.Now()
		for i, n := range s.bed.Nodes {
			s.soon(shortly, func() error {
				if now := s.programmed(n); now != before[i] {
					return fmt.Errorf("%s has\n%s\nand before\n%s", n.Name, now, before[i])
				}
				return nil
			})
		}
		s.pause(switchBack)
	})
	for i, r := range reports {
		after := max(0, r.LastLost.Sub(back))
		if took = append(took, after); after > switchBack {
			s.Errorf("%s is lost %s after the switches are back", flows[i].name, after)
		}
	}
	return took
}

// pause lets datagrams pass, or something be away, for a time.
func (s story) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
	s.must(s.ctx.Err())
}

func (s story) restartAgents(end func(*testbed.Process) error) {
	s.Helper()
	for _, n := range s.bed.Nodes {
		s.must(end(n.Netplugin()))
		s.must(n.StartNetplugin())
		s.must(n.WaitReady(s.ctx))
	}
}

// foreignFlow is one that no packet meets, which an audit removes.
const foreignFlow = "table=0,priority=65001,in_port=65001"

// audited waits until the switches have been read from end to end, which is when a flow
// of somebody else is gone from each bridge.
func (s story) audited() {
	s.Helper()
	for _, n := range s.bed.Nodes {
		_, err := n.Run(s.ctx, "sh", "-ec", `for bridge in contivVxlanBridge contivVlanBridge; do
  ovs-ofctl -O OpenFlow13 add-flow $bridge "$1,actions=drop"
done`, "sh", foreignFlow)
		s.must(err)
	}
	for _, n := range s.bed.Nodes {
		s.soon(2*time.Minute, func() error {
			out, err := n.Run(s.ctx, "sh", "-ec", `for bridge in contivVxlanBridge contivVlanBridge; do
  ovs-ofctl -O OpenFlow13 --no-stats dump-flows $bridge "$1"
done`, "sh", "in_port=65001")
			if err == nil && strings.Contains(out, "65001") {
				err = fmt.Errorf("%s still has a flow of somebody else: %s", n.Name, out)
			}
			return err
		})
	}
}

// othersPolicy changes rules of a group whose pods nobody speaks with.
func (s story) othersPolicy() {
	s.Helper()
	for range 20 {
		s.netctl(strings.Fields("policy rule-add -t blue -d in -l udp -P 7 -j deny others no-echo")...)
		s.netctl(strings.Fields("policy rule-add -t blue -d out -l udp -j deny others silence")...)
		s.netctl(strings.Fields("policy rule-rm -t blue others no-echo")...)
		s.netctl(strings.Fields("policy rule-rm -t blue others silence")...)
	}
}

// othersIn makes a pod in a group of its own, whose policy changes.
func (s story) othersIn(network string) {
	s.Helper()
	s.netctlForNow("policy create -t blue others", "policy rm -t blue others")
	s.netctlForNow("group create -t blue -p others "+network+" others", "group rm -t blue others")
	s.pod(0, "other", "blue", network, "others")
}

// both are the flow that lasts and those that begin all the time.
func both(name string, from *testbed.Pod, to netip.Addr) []flow {
	return []flow{{name: name, from: from, to: to}, {name: "new, " + name, from: from, to: to, fresh: true}}
}

func (s story) routedFlows() ([]flow, disturbance) {
	s.Helper()
	for i, n := range s.bed.Nodes {
		s.netctlForNow(fmt.Sprintf("bgp create %s --router-ip 198.18.5.%d/24 --as 65001 --neighbor-as 65100 --neighbor 198.18.5.1", n.Name, 11+i), "bgp rm "+n.Name)
	}
	s.tenant("blue")
	s.network("blue", "inner", "10.1.1.0/24")
	s.network("blue", "shop", "10.1.2.0/24")
	s.netctlForNow("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 lan", "network rm -t blue lan")
	s.netctlForNow("service create -t blue -s shop -l app=web -ip "+serviceVIP+" -p "+tcpPort+":80:TCP -p "+echoPort+":7:UDP web", "service rm -t blue web")
	s.othersIn("inner")
	inner1, inner2 := s.pod(0, "inner1", "blue", "inner", ""), s.pod(1, "inner2", "blue", "inner", "")
	lan1, lan2 := s.pod(0, "lan1", "blue", "lan", ""), s.pod(1, "lan2", "blue", "lan", "")
	s.reachEachOther(shortly, inner1, inner2)
	s.reachEachOther(shortly, lan1, lan2)
	flows := append(both("vxlan", inner1, inner2.IP), both("vlan", lan1, lan2.IP)...)
	return append(flows, both("service", inner1, netip.MustParseAddr(serviceVIP))...), s.providers("shop", serviceVIP, inner1, inner2)
}

// providers serve a service, one of them always and one while something happens.
func (s story) providers(network, vip string, client, other *testbed.Pod) disturbance {
	s.Helper()
	one := s.sandbox(1, "one", "blue", network, "")
	one.Labels = map[string]string{"app": "web"}
	s.must(one.Attach(s.ctx))
	s.serve(one)
	two := s.pod(0, "two", "blue", network, "")
	s.servedAt(vip, []*testbed.Pod{client}, "one")
	return disturbance{"a provider comes, and drains", func(s story) {
		s.container("start", two, map[string]string{"app": "web"})
		s.servedAt(vip, []*testbed.Pod{other}, "one", "two")
		s.container("start", two, map[string]string{"app": "old"})
		s.servedAt(vip, []*testbed.Pod{other}, "one")
	}}
}

func (s story) bridgedFlows() ([]flow, disturbance) {
	s.Helper()
	s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s 10.1.9.0/24 inner", "network rm -t blue inner")
	const vip = "10.1.9.200"
	s.netctlForNow("service create -t blue -s inner -l app=web -ip "+vip+" -p "+tcpPort+":80:TCP -p "+echoPort+":7:UDP web", "service rm -t blue web")
	s.onVLAN("lan", lanVLAN, lanRouter4, lanRouter6)
	s.othersIn("inner")
	inner1, inner2 := s.pod(0, "inner1", "blue", "inner", ""), s.pod(1, "inner2", "blue", "inner", "")
	lan1, lan2 := s.pod(0, "lan1", "blue", "lan", ""), s.pod(1, "lan2", "blue", "lan", "")
	router, err := s.bed.Outside.Start("echo", inner1.Probe(), "serve", "-udp", echoPort)
	s.must(err)
	s.Cleanup(func() { router.Kill() })
	s.reachEachOther(shortly, inner1, inner2)
	s.reachEachOther(shortly, lan1, lan2)
	s.pings(lan1, lanRouter4)
	flows := append(append(both("vxlan", inner1, inner2.IP), both("vlan", lan1, lan2.IP)...), both("router", lan2, netip.MustParseAddr(lanRouter4))...)
	return append(flows, both("service", inner1, netip.MustParseAddr(vip))...), s.providers("inner", vip, inner1, inner2)
}
