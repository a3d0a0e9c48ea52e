package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// TestLongNothingIsLost disturbs everything but the switches while datagrams and connections pass in every
// forwarding mode, and prints which disturbance cost which flow how much. In every mode there are a flow from
// before, and datagrams each of which is a new flow, of either IP family; and connections that last from the first
// disturbance to the last. A restart of the switches comes last: they cannot forward meanwhile, but soon after it.
//
// The switches have priority: in user space they would lose waiting packets while other tests use the processor.
func TestLongNothingIsLost(t *testing.T) {
	testkit.TakesLong(t)
	if err := inHistory(recent); err != nil {
		t.Fatal(err) // it needs the history of the source, which a shallow clone has not
	}
	other := buildOf(t, recent)
	var link sync.Once
	upgraded := func(s story, c cast) {
		own := s.bed.Bin
		link.Do(func() { linkTools(t, own, other) })
		c.own = append(c.own,
			disturbance{"daemons are those of a version before", func(s story) { s.replaceDaemons(other) }},
			disturbance{"they are upgraded again", func(s story) { s.replaceDaemons(own) }})
		s.disturbed(c)
	}
	tellOn(t, testbed.Config{Nodes: 3, Uplinks: 1, First: true, Readers: true}, []chapter{
		{"routed, in tunnels, on VLANs, to services and by BGP", func(s story) { upgraded(s, s.routedCast()) }},
		{"bridged, in tunnels, on VLANs, to services and to the router outside", func(s story) { upgraded(s, s.bridgedCast()) }},
	})
}

// recent is the first version with all tables of today. After a downgrade to a version without the tables that
// follow the connection tracker, packets in the tracker at that moment are dropped.
const recent = "b95428ca"

// replaceDaemons replaces the daemons of all nodes by another version's, one after the other.
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

// cast are the flows and connections that run while a cluster is disturbed.
type cast struct {
	flows       []flow
	connections []flow        // one TCP connection each, through all disturbances
	own         []disturbance // beside those of all
	settled     func(story)   // what has to be restored before the next disturbance; nil: nothing
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

// disturbanceLimit bounds each disturbance with the streams meanwhile, switchBack how long after the return of a
// switch packets may be lost.
const (
	disturbanceLimit = 4 * time.Minute
	switchBack       = 3 * time.Second
)

// disturbed plays all disturbances, and those that only this cast has, and then
// restarts the switches.
func (s story) disturbed(c cast) {
	s.Helper()
	lost := table{head: "lost of sent"}
	for _, f := range c.flows {
		lost.rows = append(lost.rows, []string{f.name})
	}
	whole, over := s.within(connectionLimit)
	defer over()
	connections := whole.begin(c.connections...)
	defer kill(connections) // of a story that fails meanwhile
	for _, d := range append(disturbances, c.own...) {
		reports := s.disturbedBy(d, c)
		var losses []string
		for i, r := range reports {
			losses = append(losses, fmt.Sprintf("%d of %d", r.Lost, r.Sent))
			if r.Lost != 0 || r.Sent == 0 {
				s.Errorf("%s: %s lost %d of %d", d.what, c.flows[i].name, r.Lost, r.Sent)
			}
		}
		lost.add(d.what, losses)
	}
	s.lived(c.connections, whole.ended(c.connections, connections))
	s, done := s.within(disturbanceLimit)
	defer done()
	var back []string
	for _, took := range s.restartSwitches(c.flows) {
		back = append(back, fmt.Sprintf("%d ms", took.Milliseconds()))
	}
	lost.add("switches are killed and start: back after", back)
	s.Logf("\n%s", lost)
}

// disturbedBy plays a disturbance while datagrams pass.
func (s story) disturbedBy(d disturbance, c cast) (reports []streamReport) {
	s.Helper()
	measuring, done := s.within(3 * disturbanceLimit)
	defer done()
	measuring.unlessUnread(func() (lost int) {
		started := time.Now()
		s, done := s.within(disturbanceLimit)
		defer done()
		reports = s.whileFlowing(c.flows, func() {
			d.do(s)
			if c.settled != nil {
				c.settled(s)
			}
		})
		s.Logf("%s: took %s", d.what, time.Since(started))
		for _, r := range reports {
			lost += r.Lost
		}
		return lost
	})
	return reports
}

// connectionLimit bounds the life of a connection, connectionGap how long nothing may come back over it.
const (
	connectionLimit = 30 * time.Minute
	connectionGap   = 3 * time.Second
)

// lived expects that connections have carried all data without an interruption.
func (s story) lived(connections []flow, reports []streamReport) {
	s.Helper()
	for i, r := range reports {
		if gap := time.Duration(r.MaxGapMS * float64(time.Millisecond)); r.Lost != 0 || r.Sent == 0 || gap > connectionGap {
			s.Errorf("connection %s: %d of %d did not come back, nothing for %s from %s on", connections[i].name, r.Lost, r.Sent, gap, r.GapAt.UTC().Format(logTime))
		}
	}
}

// restartSwitches returns how long after the return of the last switch the last datagram of each flow was lost,
// and expects the same content of the switches as before.
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

// pause waits while datagrams pass, or something is away.
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

// foreignFlow is a flow that no packet matches, which an audit removes.
const foreignFlow = "table=0,priority=65001,in_port=65001"

// audited waits until the switches have been read from end to end: a foreign flow has been removed from each
// bridge then.
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

// othersPolicy changes rules of a group whose pods have no traffic.
func (s story) othersPolicy() {
	s.Helper()
	for range 20 {
		s.netctl(strings.Fields("policy rule-add -t blue -d in -l udp -P 7 -j deny others no-echo")...)
		s.netctl(strings.Fields("policy rule-add -t blue -d out -l udp -j deny others silence")...)
		s.netctl(strings.Fields("policy rule-rm -t blue others no-echo")...)
		s.netctl(strings.Fields("policy rule-rm -t blue others silence")...)
	}
}
