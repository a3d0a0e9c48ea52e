package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// failover is how many datagrams, and so milliseconds, the loss of the active leg may cost; the kernel reports it
// to the switch.
const failover = 1000

// A pod speaks with one of another node, a datagram per millisecond, while each leg of its node's bond in turn is
// set down and up again.
func TestLongABondGoesOnWithItsOtherLeg(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 2, Uplinks: 2, First: true})
	legs := []string{testbed.UplinkName(1), testbed.UplinkName(2)}
	for _, n := range bed.Nodes {
		if err := n.StartNetmaster(); err != nil {
			t.Fatal(err)
		}
		if err := n.StartNetplugin("--vlan-uplinks", strings.Join(legs, ","), "--vlan-bond-mode", "active-backup"); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range bed.Nodes {
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		if err := n.WaitWayOut(ctx); err != nil {
			t.Fatal(err)
		}
	}
	playOn(t, bed, func(s story) {
		s.netctlForNow("global set --fwd-mode bridge", "global set --fwd-mode routing")
		s.tenant("blue")
		s.onVLAN("lan", lanVLAN, lanRouter4, lanRouter6)
		a, b := s.pod(0, "a", "blue", "lan", ""), s.pod(1, "b", "blue", "lan", "")
		s.reachEachOther(shortly, a, b)
		for range legs {
			active := s.activeLeg(a.Node)
			other := legs[0]
			if other == active {
				other = legs[1]
			}
			lost := s.during(a, b, func() {
				s.setLeg(a.Node, active, "down")
				s.legIs(a.Node, active, "disabled")
				s.must(reaches(s.ctx, a, b))
			}).Lost
			t.Logf("%s of %s goes: %d datagrams lost", active, a.Node.Name, lost)
			if lost > failover || s.activeLeg(a.Node) != other {
				s.Errorf("%s goes: %d datagrams lost, %s is active", active, lost, s.activeLeg(a.Node))
			}
			s.withoutLoss(a, b, func() {
				s.setLeg(a.Node, active, "up")
				s.legIs(a.Node, active, "enabled")
			})
		}
	})
}

// setLeg sets the outer end of a leg up or down.
func (s story) setLeg(n *testbed.Node, leg, state string) {
	s.Helper()
	number := strings.TrimPrefix(leg, "eth")
	_, err := s.bed.Outside.Run(s.ctx, "ip", "link", "set", n.Name+"-"+number, state)
	s.must(err)
}

func (s story) bond(n *testbed.Node) string {
	s.Helper()
	out, err := n.Run(s.ctx, "ovs-appctl", "bond/show", "uplinkPort")
	s.must(err)
	return out
}

// legIs waits until the switch reports a leg as enabled or disabled.
func (s story) legIs(n *testbed.Node, leg, state string) {
	s.Helper()
	s.soon(shortly, func() error {
		if out := s.bond(n); !strings.Contains(out, "member "+leg+": "+state) {
			return fmt.Errorf("%s is not %s:\n%s", leg, state, out)
		}
		return nil
	})
}

// activeLeg returns the leg that carries the bond's packets.
func (s story) activeLeg(n *testbed.Node) string {
	s.Helper()
	out := s.bond(n)
	before, _, found := strings.Cut(out, "\n  active member\n")
	if !found {
		s.Fatalf("no leg is active:\n%s", out)
	}
	line := before[strings.LastIndex(before, "\n")+1:]
	return strings.TrimPrefix(strings.Split(line, ":")[0], "member ")
}
