package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

var switchChapters = []chapter{
	{"a switch that is killed forwards again by itself, with its policies", theSwitchIsKilled},
	{"a switch whose database was killed forwards again by itself, with its policies, and takes new pods", theDatabaseIsKilled},
	{"what somebody removes from a switch comes back, and its policies with it", rowsAreRemoved},
	{"bridges of others are left alone", foreignBridgesStay},
}

// guarded makes the pods of two networks; back accepts no datagrams, only connections and pings.
func (s story) guarded() (front, back *testbed.Pod) {
	s.Helper()
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	s.network("blue", "back", "10.1.2.0/24")
	s.netctlForNow("policy create -t blue guard", "policy rm -t blue guard")
	s.netctl(strings.Fields("policy rule-add -t blue -d in -l udp -p 5 -j deny guard no-udp")...)
	s.netctlForNow("group create -t blue -p guard back db", "group rm -t blue db")
	return s.pod(0, "front1", "blue", "front", ""), s.pod(1, "back1", "blue", "back", "db")
}

// isGuarded expects that connections and pings get through, and datagrams do not.
func isGuarded(ctx context.Context, from, to *testbed.Pod) error {
	got, err := ask(ctx, from, to.IP, 500*time.Millisecond)
	if err != nil {
		return err
	}
	if got["udp"] != "" {
		return fmt.Errorf("policy: %s of %s answers datagrams", to.Name, to.Tenant)
	}
	if got["ping"] != "pong" || got["tcp"] != to.Name {
		return fmt.Errorf("%s asks %s and gets %v", from.Name, to.Name, got)
	}
	return nil
}

// isGuardedAgain expects the same shortly, and that no datagram passes meanwhile.
func (s story) isGuardedAgain(from, to *testbed.Pod) {
	s.Helper()
	took := s.soon(shortly, func() error {
		err := isGuarded(s.ctx, from, to)
		if err != nil && strings.HasPrefix(err.Error(), "policy:") {
			s.Fatal(err)
		}
		return err
	})
	s.Logf("%s reaches %s after %s", from.Name, to.Name, took)
}

func theSwitchIsKilled(s story) {
	front, back := s.guarded()
	s.isGuardedAgain(front, back)
	for _, n := range s.bed.Nodes {
		s.must(n.KillVSwitchd())
		s.must(n.StartOVS(s.ctx))
		s.isGuardedAgain(front, back)
	}
	late := s.pod(0, "late", "blue", "back", "db")
	s.isGuardedAgain(front, late)
}

// theDatabaseIsKilled: without its database, Open vSwitch in user space does
// not forward at all, on any bridge; on a kernel datapath it does.
func theDatabaseIsKilled(s story) {
	front, back := s.guarded()
	s.isGuardedAgain(front, back)
	for _, n := range s.bed.Nodes {
		s.must(n.KillOVSDB())
	}
	for _, n := range s.bed.Nodes {
		s.must(n.StartOVS(s.ctx))
	}
	s.isGuardedAgain(front, back)
	late := s.pod(1, "late", "blue", "front", "")
	s.reachEachOther(shortly, front, late)
}

// removals are what an operator may remove from a switch; $1 is the pod's port.
var removals = []struct{ what, script string }{
	{"the tunnel", `ovs-vsctl --timeout=10 del-port contivVxlanBridge vxif0`},
	{"the port of a pod", `ovs-vsctl --timeout=10 del-port contivVxlanBridge "$1"`},
	{"the name a pod's port is known by", `ovs-vsctl --timeout=10 clear interface "$1" external_ids`},
	{"the bridge", `ovs-vsctl --timeout=10 del-br contivVxlanBridge`},
}

func rowsAreRemoved(s story) {
	front, back := s.guarded()
	s.isGuardedAgain(front, back)
	port := s.hostPort(front.Node)
	for _, r := range removals {
		_, err := front.Node.Run(s.ctx, "sh", "-ec", r.script, "sh", port)
		s.must(err)
		s.Logf("removed: %s", r.what)
		s.isGuardedAgain(front, back)
	}
	late := s.pod(0, "late", "blue", "front", "")
	s.isGuardedAgain(late, back)
}

// foreignRows returns the database's rows of the underlay's bridge and its ports, without the counters.
func foreignRows(ctx context.Context, n *testbed.Node) (string, error) {
	var all strings.Builder
	var errs []error
	for _, args := range [][]string{
		{"bridge", "br-phy"},
		{"port", "br-phy"}, {"port", "uplink"},
		{"interface", "br-phy", "--columns", "name,type,options,external_ids,other_config,mac,ofport,ofport_request"},
		{"interface", "uplink", "--columns", "name,type,options,external_ids,other_config,mac,ofport,ofport_request"},
	} {
		cmd := append([]string{"ovs-vsctl", "--timeout=10"}, args[2:]...)
		out, err := n.Run(ctx, append(cmd, "list", args[0], args[1])...)
		all.WriteString(out)
		errs = append(errs, err)
	}
	flows, err := n.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", "br-phy")
	return all.String() + flows, errors.Join(append(errs, err)...)
}

func foreignBridgesStay(s story) {
	n := s.bed.Nodes[0]
	_, err := n.Run(s.ctx, "sh", "-ec", `
ovs-vsctl --timeout=10 add-br br-other -- set bridge br-other datapath_type=netdev external-ids:owner=somebody -- add-port br-other other0 -- set interface other0 type=internal
ovs-ofctl -O OpenFlow13 add-flow br-other "cookie=0xc0ffee, priority=7, actions=drop"`)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := n.Run(ctx, "ovs-vsctl", "--timeout=10", "del-br", "br-other")
		return err
	})
	const other = "ovs-vsctl --timeout=10 list bridge br-other; ovs-vsctl --timeout=10 list port other0; ovs-ofctl -O OpenFlow13 --no-stats dump-flows br-other"
	look := func() string {
		rows, err := foreignRows(s.ctx, n)
		s.must(err)
		out, err := n.Run(s.ctx, "sh", "-ec", other)
		s.must(err)
		return rows + out
	}
	before := look()
	front, back := s.guarded()
	s.isGuardedAgain(front, back)
	s.must(n.Netplugin().Kill())
	s.must(n.StartNetplugin())
	s.must(n.WaitReady(s.ctx))
	if after := look(); after != before {
		s.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
