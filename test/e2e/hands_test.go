package e2e

import (
	"fmt"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

var handChapters = []chapter{
	{"what somebody changes on a switch is set right, and pods it does not concern do not notice", handChanges},
	{"a link that somebody deletes is reported, others go on, and the pod can be made again", aLinkIsDeleted},
}

// changes are what an operator may do to a switch beside the removals of switch_test.go; $1 is the pod's port.
var changes = []struct{ what, script string }{
	{"the port of a pod, with a VLAN", `ovs-vsctl --timeout=10 set port "$1" tag=7 vlan_mode=access`},
	{"the number of a pod's port", `ovs-vsctl --timeout=10 set interface "$1" ofport_request=777`},
	{"the link of a pod, set down", `ip link set "$1" down`},
	{"the port of a pod, closed", `ovs-ofctl -O OpenFlow13 mod-port contivVxlanBridge "$1" down`},
	{"the tunnel, to one host only", `ovs-vsctl --timeout=10 set interface vxif0 options:remote_ip=203.0.113.9`},
	{"the tunnel, with one key", `ovs-vsctl --timeout=10 set interface vxif0 options:key=7`},
	{"the bridge, without versions of OpenFlow", `ovs-vsctl --timeout=10 set bridge contivVxlanBridge protocols=OpenFlow10`},
}

func handChanges(s story) {
	front, back := s.guarded()
	port := s.hostPort(front.Node) // of the only pod so far
	one, other := s.bystanders()
	s.isGuardedAgain(front, back)
	for _, c := range changes {
		s.Log(c.what)
		s.withoutLoss(one, other, func() {
			_, err := front.Node.Run(s.ctx, "sh", "-ec", c.script, "sh", port)
			s.must(err)
			s.isGuardedAgain(front, back)
		})
	}
}

// bystanders makes two pods of another tenant on the first node.
func (s story) bystanders() (one, other *testbed.Pod) {
	s.Helper()
	s.tenant("red")
	s.network("red", "front", "10.1.1.0/24")
	one, other = s.pod(0, "one", "red", "front", ""), s.pod(0, "other", "red", "front", "")
	s.reachEachOther(shortly, one, other)
	return one, other
}

// hostPort returns the host's end of the link of the only pod on a node.
func (s story) hostPort(n *testbed.Node) string {
	s.Helper()
	links, err := n.PodLinks(s.ctx)
	s.must(err)
	if len(links) != 1 {
		s.Fatalf("%s has the pod links %v, want one", n.Name, links)
	}
	return links[0]
}

func aLinkIsDeleted(s story) {
	front, back := s.guarded()
	port := s.hostPort(front.Node)
	one, other := s.bystanders()
	s.isGuardedAgain(front, back)
	s.withoutLoss(one, other, func() {
		_, err := front.Node.Run(s.ctx, "ip", "link", "del", port)
		s.must(err)
		s.soon(shortly, func() error {
			got, err := agentTells(s.ctx, front.Node, "/inspect/driver")
			if err == nil && !strings.Contains(got.body, port) {
				err = fmt.Errorf("/inspect/driver does not tell of %s: %s", port, got.body)
			}
			return err
		})
		_, err = front.CNI(s.ctx, "del")
		s.must(err)
		s.must(front.Attach(s.ctx))
		s.isGuardedAgain(front, back)
	})
}
