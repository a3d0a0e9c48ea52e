package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// Ten neighbours have as many routes as each may have, and one more has all of theirs.
const (
	manyNeighbours = 10
	routesOfEach   = 20_000
	manyRoutes     = manyNeighbours * routesOfEach
)

// How long it may take on a busy machine until they are all in the switch, and what a pod may wait for meanwhile.
const (
	manyRoutesLimit = 5 * time.Minute
	patienceOfPods  = 15 * time.Second
	mostMemory      = 2 << 30
)

// The cost of as many routes as there may be is logged; pods do not notice. A neighbour cannot have the node
// accept more.
func TestLongHundredsOfThousandsOfRoutes(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBedFor(t, 30*time.Minute, testbed.Config{Nodes: 1, Uplinks: 1, First: true})
	startDaemons(t, ctx, bed)
	s := story{t, ctx, bed}
	node := bed.Nodes[0]
	_, err := bed.Outside.Run(ctx, "sh", "-ec", `
for i in $(seq 0 `+fmt.Sprint(manyNeighbours)+`); do ip address add 198.18.5.$((100 + i))/24 dev native; done
ip address add `+lastWorld+`/32 dev lo
ip route add 10.1.7.0/24 via `+nodeAddress(0))
	s.must(err)
	s.tenant("blue")
	s.netctlForNow("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 routed", "network rm -t blue routed")
	create := fmt.Sprintf("bgp create %s --router-ip %s/24 --as 65001 --neighbor-as %d --neighbor 198.18.5.100", node.Name, nodeAddress(0), routerAS)
	for i := range manyNeighbours {
		create += fmt.Sprintf(" --neighbors 198.18.5.%d=%d", 101+i, routerAS)
	}
	s.netctlForNow(create, "bgp rm "+node.Name)
	a, b := s.pod(0, "a", "blue", "routed", ""), s.pod(0, "b", "blue", "routed", "")
	s.soon(shortly, func() error { return reaches(ctx, a, b) })
	agent := agentOf(s, node)
	agent.tell("without a route")

	control := s.manySpeakers()
	s.whileOthersGoOn(agent, a, b, fmt.Sprintf("%d routes until they are of use", manyRoutes), func() bool { return s.inSwitch(node) >= manyRoutes })
	s.soon(shortly, func() error { return pingsWorld(ctx, a, lastWorld) })
	agent.tell("with all routes")

	for what, orders := range map[string][]string{ // in turn, one each second
		"sessions": {"restart node"}, "routes": {"disable world", "enable world"},
	} {
		begun, flaps := time.Now(), 0
		s.whileOthersGoOn(agent, a, b, fmt.Sprintf("the %s of one neighbour flap each second", what), func() bool {
			control(0, strings.Fields(orders[flaps%len(orders)])...)
			flaps++
			return time.Since(begun) > 30*time.Second && flaps%len(orders) == 0
		})
		s.Logf("%d flaps", flaps)
		s.whileOthersGoOn(agent, a, b, "after that", func() bool { return s.learned(node) == manyRoutes && s.inSwitch(node) >= manyRoutes })
		agent.tell("after the flaps")
	}

	control(manyNeighbours, "enable", "node")
	s.whileOthersGoOn(agent, a, b, "one neighbour says all that the others say", func() bool {
		var told contivmodel.BgpInspect
		out, err := bed.Netctl(ctx, "bgp", "inspect", node.Name)
		if err != nil || json.Unmarshal([]byte(out), &told) != nil || len(told.Oper.Neighbors) != manyNeighbours+1 {
			return false
		}
		bad := told.Oper.Neighbors[manyNeighbours]
		return bad.AdminStatus == "pfx_ct" && strings.Contains(bad.LastError, "more than 20000 routes") && told.Oper.NumRoutes == manyRoutes
	})
	s.soon(shortly, func() error { return pingsWorld(ctx, a, lastWorld) })
	agent.tell("when one neighbour has said too much")
	if most := agent.memory("VmHWM"); most > mostMemory {
		t.Errorf("netplugin had %d MB, want %d at most", most>>20, mostMemory>>20)
	}
}

// lastWorld is an address of the last route.
const lastWorld = "23.13.63.1"

// manySpeakers starts the neighbours, each with its routes. The last one has all of them, and is disabled. BIRD
// has one session with a node, so each is a process.
func (s story) manySpeakers() (control func(number int, order ...string)) {
	s.Helper()
	dir, err := os.MkdirTemp("", "bird")
	s.must(err)
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.must(os.Chmod(dir, 0o755)) // they drop their privileges before they read
	var all strings.Builder
	for i := range manyNeighbours + 1 {
		var routes strings.Builder
		for j := range routesOfEach {
			n := 20<<16 + i*routesOfEach + j
			fmt.Fprintf(&routes, "route %d.%d.%d.0/24 blackhole;\n", byte(n>>16), byte(n>>8), byte(n))
		}
		text, more := routes.String(), ""
		if i == manyNeighbours {
			text, more = all.String(), "disabled;"
		}
		all.WriteString(text)
		file := filepath.Join(dir, fmt.Sprint("config", i))
		s.must(os.WriteFile(file, fmt.Appendf(nil, `
router id 198.18.5.%[1]d;
protocol device {}
protocol static world { ipv4;
%[2]s}
protocol bgp node { %[3]s local 198.18.5.%[1]d as %[4]d; strict bind yes; neighbor %[5]s as 65001; connect delay time 1; connect retry time 1; error wait time 1, 2; ipv4 { import none; export all; }; }
`, 100+i, text, more, routerAS, nodeAddress(0)), 0o644))
		p, err := s.bed.Outside.Start(fmt.Sprint("bird", i), "bird", "-f", "-c", file, "-s", manySocket(i), "-P", filepath.Join(dir, fmt.Sprint("pid", i)))
		s.must(err)
		s.afterwards(func(context.Context) error { return p.Kill() })
	}
	return func(number int, order ...string) {
		s.Helper()
		_, err := s.bed.Outside.Run(s.ctx, append([]string{"birdc", "-s", manySocket(number)}, order...)...)
		s.must(err)
	}
}

func manySocket(number int) string { return fmt.Sprintf("/run/many%d.ctl", number) }

// whileOthersGoOn polls each second until done returns true. Meanwhile datagrams go from one pod to another, and a
// pod is added and deleted each second.
func (s story) whileOthersGoOn(agent *measuredAgent, a, b *testbed.Pod, what string, done func() bool) {
	s.Helper()
	begun, used, longest, pods := time.Now(), agent.processor(), time.Duration(0), 0
	r := s.during(a, b, func() {
		for tick := time.NewTicker(time.Second); !done(); pods++ {
			if time.Since(begun) > manyRoutesLimit {
				s.Fatalf("%s: not within %s", what, manyRoutesLimit)
			}
			began := time.Now()
			pod, err := s.bed.Nodes[0].AddPod(s.ctx, fmt.Sprint("guest", pods), "blue", "routed", "")
			s.must(err)
			longest = max(longest, time.Since(began))
			s.must(pod.Delete(s.ctx))
			<-tick.C
		}
	})
	took := time.Since(begun)
	s.Logf("%s: %s, in which netplugin used %.0f %% of a processor; %d pods came, the longest ADD took %s; %d of %d datagrams were lost",
		what, took.Round(100*time.Millisecond), 100*(agent.processor()-used).Seconds()/took.Seconds(), pods, longest.Round(time.Millisecond), r.Lost, r.Sent)
	if longest > patienceOfPods {
		s.Errorf("%s: an ADD took %s, want %s at most", what, longest, patienceOfPods)
	}
	if r.Lost > 0 {
		s.Errorf("%s: %d of %d datagrams between pods of the node were lost", what, r.Lost, r.Sent)
	}
}

// inSwitch counts the routes in a node's switch.
func (s story) inSwitch(n *testbed.Node) int {
	s.Helper()
	out, err := n.Run(s.ctx, "sh", "-ec", "ovs-ofctl -O OpenFlow13 dump-aggregate contivVlanBridge cookie=0xc009000000000000/0xffff000000000000 | grep -o 'flow_count=[0-9]*'")
	s.must(err)
	count, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out, "flow_count=")))
	s.must(err)
	return count
}

// learned returns the number of routes that a node has received.
func (s story) learned(n *testbed.Node) int {
	s.Helper()
	told, err := agentTells(s.ctx, n, "/metrics")
	s.must(err)
	_, rest, found := strings.Cut(told.body, "\nnetplugin_bgp_routes ")
	if !found {
		s.Fatalf("no netplugin_bgp_routes: %.2000s", told.body)
	}
	text, _, _ := strings.Cut(rest, "\n")
	count, err := strconv.ParseFloat(text, 64)
	s.must(err)
	return int(count)
}

// measuredAgent is the netplugin of a node.
type measuredAgent struct {
	s   story
	pid int
}

func agentOf(s story, n *testbed.Node) *measuredAgent { return &measuredAgent{s, n.Netplugin().PID} }

// memory returns a line of /proc/PID/status, in bytes.
func (a *measuredAgent) memory(name string) int {
	a.s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.pid))
	a.s.must(err)
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	a.s.must(err)
	return kilobytes << 10
}

// processor returns the processor time that it has used.
func (a *measuredAgent) processor() time.Duration {
	a.s.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.pid))
	a.s.must(err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields, ticks := strings.Fields(rest), 0
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(field)
		a.s.must(err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func (a *measuredAgent) tell(when string) {
	a.s.Helper()
	a.s.Logf("%s netplugin has %d MB, and had %d at most", when, a.memory("VmRSS")>>20, a.memory("VmHWM")>>20)
}
