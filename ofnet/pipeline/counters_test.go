package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// count returns the switch's sum of an object's counter, in packets.
func (n *node) count(t *testing.T, object Key, what Counter) uint64 {
	t.Helper()
	var sum openflow.Aggregate
	n.connected(t, func(conn *openflow.Conn) (err error) {
		sum, err = conn.Aggregate(t.Context(), CounterFlows(object, what))
		return err
	})
	return sum.Packets
}

// dropped returns the number of packets dropped for a reason.
func (n *node) dropped(t *testing.T, why Reason) uint64 {
	t.Helper()
	var sum openflow.Aggregate
	n.connected(t, func(conn *openflow.Conn) (err error) {
		sum, err = conn.Aggregate(t.Context(), openflow.FlowFilter{
			OneTable: true, Table: tableDrop, Match: openflow.Match{regReason.is(uint32(why))}})
		return err
	})
	return sum.Packets
}

// settled repeats count until it returns the wanted number, as the switch collects the counters of its datapath
// only now and then.
func settled(want uint64, count func() uint64) uint64 {
	var got uint64
	eventually(func() string {
		if got = count(); got == want {
			return "settled"
		}
		return ""
	})
	return got
}

func TestSentAndReceivedAreCountedPerEndpointAndDecisionsPerRule(t *testing.T) {
	c := startCluster(t, web1, web2)
	deny := rule("no-udp", 5, func(r *Rule) { r.Protocol, r.DstPort = 17, 7 })
	allow := rule("udp", 6, func(r *Rule) { r.Protocol, r.DstPort, r.Allow = 17, 9, true })
	c.program(deny, allow)
	one, two := c.pod(web1), c.pod(web2)
	sent, received := one.node.count(t, web1.Key(), CountsSent), two.node.count(t, web2.Key(), CountsReceived)

	proper := udpFrame(web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "proper")
	denied := udpFrame(web2.MAC, web1.MAC, web2.IPv6, web1.IPv6, "denied")
	denied[14+40+3] = 7 // to port 7
	forged := udpFrame(web2.MAC, web1.MAC, web2.IPv4, addr("10.1.1.99"), "forged")
	wire, receiver := one.wire(), two.wire()
	for range 3 {
		wire.send(proper)
	}
	wire.send(denied)
	wire.send(denied)
	wire.send(forged)
	for range 3 {
		if receiver.receive(soon, carrying("proper")) == nil {
			t.Fatal("not received")
		}
	}
	for _, want := range []struct {
		what string
		n    uint64
		got  func() uint64
	}{
		{"what web2 received", received + 3, func() uint64 { return two.node.count(t, web2.Key(), CountsReceived) }},
		{"denied where it was sent", 2, func() uint64 { return one.node.count(t, deny.Key(), CountsDecided) }},
		{"denied where it would arrive", 0, func() uint64 { return two.node.count(t, deny.Key(), CountsDecided) }},
		{"allowed where it was sent", 3, func() uint64 { return one.node.count(t, allow.Key(), CountsDecided) }},
		{"allowed where it arrived", 3, func() uint64 { return two.node.count(t, allow.Key(), CountsDecided) }},
		{"thrown away because of the rule", 2, func() uint64 { return one.node.dropped(t, reasonDenied) }},
	} {
		if got := settled(want.n, want.got); got != want.n {
			t.Errorf("%s: %d packets, want %d", want.what, got, want.n)
		}
	}
	// The kernel sends, too: router solicitations, reports of multicast groups.
	if got := one.node.count(t, web1.Key(), CountsSent); got < sent+6 {
		t.Errorf("web1 sent %d packets, want %d and some", got, sent+6)
	}
	if got := one.node.dropped(t, reasonForged); got == 0 {
		t.Error("no forged packet is counted")
	}
}

// Each reason is set by some flow, so that none is counted in vain.
func TestEveryDropHasAReasonAndEveryReasonADrop(t *testing.T) {
	p, given := node1(), map[Reason]bool{}
	wants := p.Base()
	for _, o := range goldenObjects {
		wants.add(wantsOf(p, o, portOf(o)))
	}
	wants.add(wantsOf(New(Config{UplinkPort: exampleTunnelPort}), asRouter, examplePort))
	for _, f := range wants.Flows {
		if f.Table == tableDrop || IsOnlyAsked(f.Table) {
			continue
		}
		reason := Reason(0)
		for _, r := range Reasons() {
			for _, a := range f.Actions {
				if a == regReason.set(uint32(r.ID)) {
					reason = r.ID
				}
			}
		}
		given[reason] = true
		text, toDrop := f.String(), fmt.Sprintf("resubmit(,%d)", tableDrop)
		if leaves := f.Goto != 0 || slices.ContainsFunc([]string{"output:", "IN_PORT", "group:", "ct(", "resubmit(", "conjunction("}, func(way string) bool {
			return strings.Contains(text, way)
		}); !leaves {
			t.Errorf("%s drops on its own", f)
		}
		if drops := f.Goto == tableDrop || strings.Contains(text, toDrop); drops != (reason != 0) {
			t.Errorf("%s: reason %d", f, reason)
		}
	}
	for i, r := range Reasons() {
		if int(r.ID) != i+1 || !given[r.ID] {
			t.Errorf("reason %d, %s: place %d, given %v", r.ID, r.Name, i+1, given[r.ID])
		}
	}
}
