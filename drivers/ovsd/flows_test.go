package ovsd_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// everything is a complete wanted state with some local endpoints.
func everything(pods ...*pod) drivers.Change {
	c := drivers.Change{Replace: true, Set: []pipeline.Object{network}}
	for _, p := range pods {
		c.Set = append(c.Set, p.endpoint)
	}
	return c
}

// A switch without our flows, before the wanted objects are known, serves no endpoint, and Status reports that.
func TestASwitchThatHasLostItsFlowsIsTold(t *testing.T) {
	n := newNode(t)
	r := n.start()
	eventually(t, "an empty switch is told", func() bool { return r.Status().Lost })
	r.give(everything())
	if r.Status().Lost {
		t.Error("it has been given what it should have")
	}
	r.stop()
	r = n.start()
	eventually(t, "the switch is connected", func() bool { return r.Status().Connected })
	if r.Status().Lost {
		t.Error("it has what it was given before")
	}
	r.stop()
	n.Ofctl("del-flows", bridge)
	r = n.start()
	eventually(t, "its loss is told", func() bool { return r.Status().Lost })
}

func TestPodsReachEachOtherByPingAndTCP(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	a.exec("ping", "-c", "2", "-i", "0.01", "-W", "5", b.endpoint.IPv4.String())
	server := b.command("iperf3", "-s", "-1", "-p", "5201")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server listens", func() bool { return strings.Contains(b.exec("ss", "-ltn"), ":5201") })
	a.exec("iperf3", "-c", b.endpoint.IPv4.String(), "-p", "5201", "-n", "4M", "--connect-timeout", "5000")
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

func TestObjectsComeAndGo(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	empty := len(n.flows())
	r.give(drivers.Change{Set: []pipeline.Object{remote(9, 0)}})
	if got := len(n.flows()); got <= empty {
		t.Errorf("%d flows with an endpoint, %d without", got, empty)
	}
	if n.flowsWith("02:02:0a:01:00:09") == 0 {
		t.Error("no flow mentions the endpoint's MAC")
	}
	r.give(drivers.Change{Remove: []pipeline.Key{remote(9, 0).Key()}})
	if got := len(n.flows()); got != empty {
		t.Errorf("%d flows, %d before", got, empty)
	}
	r.give(drivers.Change{Set: []pipeline.Object{remote(8, 0), remote(9, 0)}})
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(9, 0)}})
	if n.flowsWith("02:02:0a:01:00:08") != 0 {
		t.Error("what a replacing change does not mention is still there")
	}
	if s := r.Status(); !s.InSync || s.Lost || s.Flows != len(n.flows()) {
		t.Errorf("status %+v with %d flows", s, len(n.flows()))
	}
}

func TestALocalEndpointHasFlowsOnceItHasAPort(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, endpoint(1, 0)}})
	if n.flowsWith("02:02:0a:01:00:01") != 0 {
		t.Error("flows without a port")
	}
	port := r.add("web.blue-1")
	from := fmt.Sprintf("in_port=%d,", port.OFPort)
	r.sync()
	if n.flowsWith(from) == 0 {
		t.Errorf("no flows for the port:\n%s", strings.Join(n.flows(), "\n"))
	}
	// The switch assigns another number.
	n.Vsctl("set", "Interface", port.HostLink, "ofport_request=99")
	eventually(t, "the flows have followed", func() bool {
		return n.flowsWith("in_port=99") > 0 && n.flowsWith(from) == 0
	})
	if err := r.RemovePort(patience(t), "web.blue-1"); err != nil {
		t.Fatal(err)
	}
	r.sync()
	if n.flowsWith("in_port=99") != 0 {
		t.Error("flows of a port that is gone")
	}
}

func TestANewNumberOfTheTunnelIsInAllFlows(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(9, 0)}})
	if n.flowsWith("in_port=1 ") == 0 {
		t.Errorf("no flow from the tunnel:\n%s", strings.Join(n.flows(), "\n"))
	}
	n.Vsctl("set", "Interface", "vxif0", "ofport_request=77")
	eventually(t, "the flows have followed", func() bool {
		return n.flowsWith("in_port=77 ") > 0 && n.flowsWith("in_port=1 ") == 0 && r.Status().InSync
	})
}

// probe sends count pings from a to b, one each millisecond. done is closed when the last answer has arrived or
// timed out; then summary can be read.
func probe(t *testing.T, a, b *pod, count int) (done <-chan struct{}, summary *strings.Builder) {
	t.Helper()
	cmd := a.command("ping", "-q", "-i", "0.001", "-W", "2", "-c", fmt.Sprint(count), b.endpoint.IPv4.String())
	summary = &strings.Builder{}
	cmd.Stdout = summary
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the summary has the result
	}()
	t.Cleanup(func() { <-ended })
	return ended, summary
}

// losesNothing repeats round while a pod pings another, once a millisecond, and fails if a ping gets no answer. If
// the machine is too slow for atLeast rounds while the pings are sent, it starts again with twice as many pings.
func losesNothing(t *testing.T, from, to *pod, atLeast int, round func()) {
	t.Helper()
	for packets := 500; ; packets *= 2 {
		before := from.node.Drops(from.netns, to.netns)
		done, summary := probe(t, from, to, packets)
		rounds := 0
		for running := true; running; rounds++ {
			round()
			select {
			case <-done:
				running = false
			default:
			}
		}
		if want := fmt.Sprintf("%d packets transmitted, %d received", packets, packets); !strings.Contains(summary.String(), want) {
			t.Errorf("in %d rounds: %s\n%s", rounds, summary, from.node.Drops(from.netns, to.netns).Since(before))
			return
		}
		if rounds >= atLeast {
			return
		}
		t.Logf("%d rounds while %d packets were sent, want at least %d", rounds, packets, atLeast)
	}
}

func TestARestartedDriverLosesNoPacket(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	a.reaches(b.endpoint.IPv4.String())
	before := n.sortedFlows()
	losesNothing(t, a, b, 3, func() {
		r.stop()
		r = n.start()
		r.give(everything(a, b))
	})
	if n.sortedFlows() != before || !r.Status().InSync {
		t.Errorf("status %+v, flows:\n%s", r.Status(), strings.Join(n.flows(), "\n"))
	}
}

func TestNothingIsRemovedBeforeTheWholeIsKnown(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(8, 0), remote(9, 0)}})
	before := len(n.flows())
	r.stop()
	r = n.start()
	r.Update(drivers.Change{Set: []pipeline.Object{remote(9, 0)}})
	r.Update(drivers.Change{Remove: []pipeline.Key{remote(9, 0).Key()}})
	eventually(t, "the driver has its connection", func() bool { return r.Status().Connected })
	if got := len(n.flows()); got != before {
		t.Errorf("%d flows, %d before the restart", got, before)
	}
	if r.Status().InSync {
		t.Error("a driver that does not know the whole says it is in sync")
	}
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	if n.flowsWith("02:02:0a:01:00:08") != 0 || n.flowsWith("02:02:0a:01:00:09") != 0 {
		t.Errorf("stale flows:\n%s", strings.Join(n.flows(), "\n"))
	}
}

func TestAKilledDatabaseServerIsSurvived(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	n.KillServer()
	eventually(t, "the driver has noticed", func() bool { return !r.Status().Connected })
	if err := r.RemovePort(patience(t), a.endpoint.ID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("RemovePort without a database: %v", err)
	}
	// Without its database ovs-vswitchd answers no request, and on the userspace datapath it does not forward either:
	// only the behaviour after that can be tested.
	r.Update(drivers.Change{Set: []pipeline.Object{remote(9, 0)}})
	n.StartServer()
	r.sync()
	eventually(t, "the driver is back", func() bool { return r.Status().InSync })
	if again := r.add(a.endpoint.ID); again != a.port {
		t.Errorf("port %+v, was %+v", again, a.port)
	}
	c := n.newPod(r, 3)
	r.give(drivers.Change{Set: []pipeline.Object{c.endpoint}})
	c.reaches(b.endpoint.IPv4.String())
}

func TestAKilledVswitchdGetsEverythingBack(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	before := n.sortedFlows()
	n.KillVswitchd()
	eventually(t, "the driver has noticed", func() bool { return !r.Status().Connected })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.Sync(ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Sync without a switch: %v", err)
	}
	n.StartVswitchd()
	r.sync()
	if after := n.sortedFlows(); after != before {
		t.Errorf("flows after:\n%s\nbefore:\n%s", after, before)
	}
	if got := n.Ofctl("get-frags", bridge); !strings.Contains(got, "nx-match") {
		t.Errorf("first fragments have no ports: %s", got)
	}
	a.exec("ping", "-c", "3", "-i", "0.2", "-W", "5", b.endpoint.IPv4.String())
	if n.newPod(r, 3).port.OFPort == 0 {
		t.Error("no number for a new port")
	}
}

func TestAnAuditRepairsWhatSomebodyElseDid(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 100 * time.Millisecond
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(9, 0)}})
	before := n.sortedFlows()
	back := func() bool { return n.sortedFlows() == before }
	for _, c := range []struct{ what, command, flow string }{
		{"a deleted flow", "del-flows", "table=30"},
		{"all flows deleted", "del-flows", ""},
		{"a changed flow", "mod-flows", "table=30,actions=drop"},
		{"a foreign flow", "add-flow", "table=0,priority=9999,actions=drop"},
		{"a flow of an older version", "add-flow", "cookie=0xc000070300000000,table=3,priority=9999,actions=drop"},
	} {
		t.Run(c.what, func(t *testing.T) {
			args := []string{c.command, bridge}
			if c.flow != "" {
				args = append(args, c.flow)
			}
			n.Ofctl(args...)
			eventually(t, "the flows are back", back)
		})
	}
	n.Ofctl("add-flow", bridge, "table=0,priority=9999,idle_timeout=600,actions=drop")
	eventually(t, "in sync", func() bool { return r.Status().InSync })
	r.sync()
	if n.flowsWith("idle_timeout=600") != 1 {
		t.Error("an experiment that ends by itself was removed")
	}
}

// The next audit is far away.
func TestDeletedFlowsAreBackAtOnce(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = time.Hour
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(9, 0)}})
	before := n.sortedFlows()
	for range 3 {
		n.Ofctl("del-flows", bridge)
		eventually(t, "the flows are back", func() bool { return n.sortedFlows() == before })
	}
}

func TestAChangeOfAGroupIsSeenInTheFlows(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(9, 5)}})
	five := n.flowsWith("0x5")
	r.give(drivers.Change{Set: []pipeline.Object{remote(9, 6)}})
	if five == 0 || n.flowsWith("0x6") == 0 {
		t.Errorf("flows:\n%s", strings.Join(n.flows(), "\n"))
	}
}

func TestAnObjectThatCannotBeAFlowIsReportedAndHoldsUpNobody(t *testing.T) {
	n := newUnderlay(t)
	r := n.start()
	bad := remote(8, 0)
	bad.VRF = 0
	r.Update(drivers.Change{Replace: true, Set: []pipeline.Object{network, bad, remote(9, 0)}})
	if err := r.Sync(patience(t)); err == nil || !strings.Contains(err.Error(), "web.blue-8") {
		t.Errorf("error %v", err)
	}
	if n.flowsWith("02:02:0a:01:00:09") == 0 {
		t.Error("the good endpoint has no flows")
	}
	if err := r.Sync(patience(t), remote(9, 0).Key()); err != nil {
		t.Errorf("the good endpoint: %v", err)
	}
	if s := r.Status(); s.InSync || !strings.Contains(s.LastError, "web.blue-8") {
		t.Errorf("status %+v", s)
	}
	r.give(drivers.Change{Remove: []pipeline.Key{bad.Key()}})
	if s := r.Status(); !s.InSync || s.LastError != "" {
		t.Errorf("status %+v", s)
	}
}

func TestAnAuditOfAQuietSwitchFindsNothing(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 20 * time.Millisecond
	logger, messages := logtest.NewNullLogger()
	n.config.Log = logger.WithField("component", "ovsd")
	r := n.start()
	r.add("web.blue-1")
	local, far := endpoint(1, 5), remote(9, 6)
	local.IPv6, far.IPv6 = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::9")
	local.Limits = pipeline.Limits{Rate: 1, Burst: 1, DSCP: 46}
	six := network
	six.Subnet6, six.Gateway6 = netip.MustParsePrefix("fd00::/64"), netip.MustParseAddr("fd00::fe")
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{six, local, far,
		pipeline.Rule{ID: "r1", Priority: 3, SrcGroup: 5, DstGroup: 6, Protocol: 6, DstPort: 80, TCPFlags: "syn,!ack", Allow: true},
		pipeline.Rule{ID: "r2", Priority: 1, Src: netip.MustParsePrefix("10.1.0.0/16"), Protocol: 17},
	}})
	// The audit that repairs this has compared everything else, too.
	n.Ofctl("add-flow", bridge, "table=0,priority=9999,actions=drop")
	eventually(t, "the flow is removed", func() bool { return n.flowsWith("priority=9999") == 0 })
	for _, entry := range messages.AllEntries() { // a slow switch causes other warnings
		if first, found := entry.Data["first"]; found && entry.Level <= logrus.WarnLevel && first != "priority=9999 actions=drop" {
			t.Errorf("%s %v", entry.Message, entry.Data)
		}
	}
}
