package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// Netmasters and nodes join with tokens, without a file that is copied by hand; when the
// leader is killed, the next one has the CAs, and pods are attached over TLS as before.
func TestNodesThatHaveJoinedOutliveTheirLeader(t *testing.T) {
	t.Parallel()
	ctx, bed := newBed(t, testbed.Config{Nodes: 3, Secure: true})
	s := story{t, ctx, bed}
	members := bed.Nodes[1:]
	s.soon(time.Minute, func() error {
		for command, want := range map[string]int{"node ls --no-headers": 3, "node ls --masters --no-headers": 3} {
			out, err := bed.Netctl(ctx, strings.Fields(command)...)
			if err != nil || strings.Count(out, "\n") != want {
				return fmt.Errorf("netctl %s: %q, %v", command, out, err)
			}
		}
		return nil
	})
	s.netctl("tenant", "create", "blue")
	s.netctl("network", "create", "-t", "blue", "-s", "10.1.1.0/24", "-g", "10.1.1.254", "front")
	attach := func(name string, at *testbed.Node) *testbed.Pod {
		pod := &testbed.Pod{Name: name, Node: at, Tenant: "blue", Network: "front"}
		s.must(pod.MakeSandbox(ctx))
		s.must(pod.Attach(ctx))
		s.serve(pod)
		return pod
	}
	a := attach("a", members[0])
	s.soon(time.Minute, func() error { return s.answersNetmastersOnly(members[0]) })
	founder := bed.Nodes[0]
	s.must(founder.Netmaster().Kill())
	s.soon(time.Minute, func() error {
		leader, err := bed.Leader(ctx)
		if err == nil && leader == founder {
			err = fmt.Errorf("%s leads still", leader.Name)
		}
		return err
	})
	b := attach("b", members[1])
	s.reachEachOther(shortly, a, b)
	// The agents of joined nodes get no more endpoints for a tenant than it may have, whichever netmaster leads.
	s.netctl("tenant", "update", "blue", "--max-endpoints", "2")
	more := &testbed.Pod{Name: "more", Node: members[0], Tenant: "blue", Network: "front"}
	s.must(more.MakeSandbox(ctx))
	if err := more.Attach(ctx); err == nil || !strings.Contains(err.Error(), "no endpoint is left: tenant blue may have 2") {
		t.Errorf("one endpoint more than the tenant may have: %v", err)
	}
	s.netctl("tenant", "update", "blue", "--max-endpoints", "3")
	s.must(more.Attach(ctx))
	written, err := s.leader().Run(ctx, "cat", "/var/log/contiv/audit.log")
	s.must(err)
	if !strings.Contains(written, "node/"+members[1].Name) {
		t.Errorf("the next leader does not know %s by its certificate: %s", members[1].Name, written)
	}
	s.joinsElsewhere(members[0], a, b)
}

// joinsElsewhere gives a node another tunnel address, and then takes its key back while its agent runs: with its
// token the node joins anew by itself each time, and its pods are reached.
func (s story) joinsElsewhere(n *testbed.Node, pods ...*testbed.Pod) {
	s.Helper()
	former := n.VTEPIP
	n.VTEPIP = former + "7" // 198.51.100.2 becomes 198.51.100.27
	s.must(n.Netplugin().Terminate())
	for _, change := range [][2]string{{"delete", former}, {"add", n.VTEPIP}} {
		_, err := n.Run(s.ctx, "ip", "address", change[0], change[1]+"/24", "dev", "br-phy")
		s.must(err)
	}
	s.must(n.StartNetplugin())
	s.joined(n, n.VTEPIP)
	s.reachEachOther(time.Minute, pods...)

	s.netctl("node", "rekey", n.Name)
	s.joined(n, n.VTEPIP)
	s.reachEachOther(time.Minute, pods...)
}

// joined waits until a node belongs to the cluster with a tunnel address, and is registered.
func (s story) joined(n *testbed.Node, vtep string) {
	s.Helper()
	s.soon(2*time.Minute, func() error {
		nodes, err := s.bed.Netctl(s.ctx, "node", "ls", "--no-headers")
		if err != nil {
			return err
		}
		for line := range strings.Lines(nodes) {
			if strings.HasPrefix(line, n.Name+" ") && strings.Contains(line, vtep) && !strings.Contains(line, "may join once more") {
				return n.WaitReady(s.ctx)
			}
		}
		return fmt.Errorf("%s has not joined with %s: %s", n.Name, vtep, nodes)
	})
}

// answersNetmastersOnly returns an error if the REST server of a joined node answers another machine in plain
// HTTP, or if netctl does not get its answers through netmaster.
func (s story) answersNetmastersOnly(n *testbed.Node) error {
	s.Helper()
	if _, err := s.bed.Nodes[0].Run(s.ctx, n.Tool("probe"), "http", "-wait", "1s", "http://"+n.MgmtIP+":9090/readyz"); err == nil {
		return fmt.Errorf("%s answers in plain HTTP", n.Name)
	}
	if checked, err := s.bed.Netctl(s.ctx, "check"); err != nil || !strings.Contains(checked, "agent "+n.Name+": asked by netmaster") {
		return fmt.Errorf("netctl check: %v\n%s", err, checked)
	}
	return nil
}
