package ovsd_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// floodGroups returns the switch's groups of flood sets.
func (n *node) floodGroups() string {
	n.t.Helper()
	var groups []string
	for line := range strings.Lines(n.Ofctl("dump-groups", bridge)) {
		if strings.Contains(line, "type=all") {
			groups = append(groups, strings.TrimSpace(line))
		}
	}
	slices.Sort(groups)
	return strings.Join(groups, "\n")
}

func (n *node) sortedFlows() string {
	return strings.Join(slices.Sorted(slices.Values(n.flows())), "\n")
}

// Under traffic, a network changes from routed to bridged and back, its members change, and the switch loses its
// flows: no packet is lost without need, and in the end the switch has what it should.
func TestABridgedNetworkIsADifferenceLikeAnyOther(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 100 * time.Millisecond
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	routed := everything(a, b)
	r.give(routed)
	routedFlows := n.sortedFlows()
	a.reaches(b.endpoint.IPv4.String())

	members := pipeline.FloodSet{Network: network.ID, VNI: network.VNI, Tag: network.Tag,
		Members: [][6]byte{a.endpoint.MAC, b.endpoint.MAC}}
	inMode := func(m pipeline.Mode, s pipeline.FloodSet) drivers.Change {
		bridged := network
		bridged.Mode = m
		c := drivers.Change{Set: []pipeline.Object{bridged, s}}
		for _, p := range []*pod{a, b} {
			e := p.endpoint
			e.Mode = m
			c.Set = append(c.Set, e)
		}
		return c
	}
	more := members
	more.VTEPs = []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")}
	losesNothing(t, a, b, 1, func() {
		r.give(inMode(pipeline.BridgedProxy, members))
		r.give(drivers.Change{Set: []pipeline.Object{more}})
		if got := n.floodGroups(); strings.Count(got, "resubmit") != 2 || strings.Count(got, "tun_dst") != 2 {
			t.Fatalf("groups:\n%s", got)
		}
		r.give(inMode(pipeline.BridgedFlood, more))
		r.give(routed)
		if got := n.floodGroups(); got != "" {
			t.Fatalf("groups of a routed network: %s", got)
		}
	})
	if got := n.sortedFlows(); got != routedFlows {
		t.Errorf("routed again:\n%s\nbefore:\n%s", got, routedFlows)
	}

	r.give(inMode(pipeline.BridgedProxy, more))
	groups, flows := n.floodGroups(), n.sortedFlows()
	same := func() bool {
		return r.Status().InSync && n.floodGroups() == groups && n.sortedFlows() == flows
	}
	for what, disturb := range map[string]func(){
		"groups are deleted":   func() { n.Ofctl("del-groups", bridge) },
		"a group is changed":   func() { n.Ofctl("mod-group", bridge, "group_id=65537,type=all,bucket=actions=drop") },
		"the switch is killed": func() { n.KillVswitchd(); n.StartVswitchd() },
		"another driver takes over": func() {
			r.stop()
			r = n.start()
			r.Update(drivers.Change{Replace: true, Set: inMode(pipeline.BridgedProxy, more).Set})
		},
	} {
		disturb()
		eventually(t, what+", and all is as before", same)
	}
}
