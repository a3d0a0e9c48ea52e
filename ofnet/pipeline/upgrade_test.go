package pipeline

import (
	"os"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// A switch with the flows of the earlier layout is upgraded, and downgraded again, in the steps of a driver. No
// step changes the verdict on any packet.
func TestPacketsFareTheSameInEveryStepOfAnUpgradeAndBack(t *testing.T) {
	c := startCluster(t, web1, web2, db2)
	for _, n := range c.nodes { // the earlier layout does not check sizes
		n.pipeline = New(Config{TunnelPort: exampleTunnelPort, LocalVTEP: n.vtep})
	}
	rules := []Object{tcpRule("deny-new", 1, 0, "syn,!ack", false), tcpRule("allow-sql", 10, 5432, "", true)}
	c.program(rules...)
	n := c.pod(web1).node
	behind, first := n.split(t, c, rules)
	before, err := os.ReadFile("testdata/layout-before.flows")
	if err != nil {
		t.Fatal(err)
	}
	var oldBehind, oldFirst []string
	for line := range strings.Lines(string(before)) {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.Contains(line, "table="):
			oldBehind = append(oldBehind, strings.TrimSpace(line))
		default:
			oldFirst = append(oldFirst, strings.TrimSpace(line))
		}
	}
	add := func(lines []string) func() {
		return func() {
			n.Ofctl(append([]string{"--bundle", "add-flows", bridge}, n.file(t, lines))...)
		}
	}
	write := func(command openflow.FlowCommand, flows []openflow.Flow) func() {
		return func() {
			var bundle []openflow.Message
			for _, f := range flows {
				bundle = append(bundle, openflow.FlowMod{Command: command, Flow: f})
			}
			n.connected(t, func(conn *openflow.Conn) error { return conn.Bundle(t.Context(), bundle...) })
		}
	}
	port := c.pod(web1).port
	packets := []packet{
		{inPort: port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: db2.IPv4, kind: "tcp,nw_ttl=64,tp_dst=5432"},
		{inPort: port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: db2.IPv4, kind: "tcp,nw_ttl=64,tp_dst=22,tcp_flags=syn"},
		{inPort: port, src: web1.MAC, dst: web2.MAC, from: web1.IPv4, to: web2.IPv4},
		{inPort: port, src: web2.MAC, dst: db2.MAC, from: web2.IPv4, to: db2.IPv4},
		{inPort: exampleTunnelPort, vni: webBlue.VNI, src: web2.MAC, dst: web1.MAC, from: web2.IPv4, to: web1.IPv4},
		{inPort: exampleTunnelPort, vni: webBlue.VNI, src: AnycastMAC, dst: web1.MAC, from: db2.IPv4, to: web1.IPv4},
		{inPort: exampleTunnelPort, vni: dbBlue.VNI, src: web2.MAC, dst: web1.MAC, from: web2.IPv4, to: web1.IPv4},
	}
	var want []string
	for _, p := range packets {
		want = append(want, n.verdict(t, p))
	}
	for _, step := range []struct {
		name     string
		old, new bool // which layout's tables exist
		do       func()
	}{
		{"the layout before", true, false, func() { n.Ofctl("del-flows", bridge); add(oldBehind)(); add(oldFirst)() }},
		{"tables beside the old ones", true, true, write(openflow.FlowAdd, behind)},
		{"table 0", true, true, write(openflow.FlowAdd, first)},
		{"without the old ones", false, true, func() { n.Ofctl("del-flows", bridge, "cookie=0xc000000000000000/0xffff000000000000") }},
		{"back: old tables beside the new ones", true, true, add(oldBehind)},
		{"back: table 0", true, true, add(oldFirst)},
		{"back: without the new ones", true, false, func() {
			write(openflow.FlowDeleteStrict, first[3:])() // all but guards and miss, which the old ones have replaced
			write(openflow.FlowDeleteStrict, behind)()
		}},
	} {
		step.do()
		dump := n.Ofctl("dump-flows", bridge)
		if strings.Contains(dump, "table=5,") != step.old || strings.Contains(dump, "table=25,") != step.new {
			t.Fatalf("%s:\n%s", step.name, dump)
		}
		for i, p := range packets {
			if got := n.verdict(t, p); got != want[i] {
				t.Errorf("%s: %s\ngot  %s\nwant %s", step.name, p, got, want[i])
			}
		}
	}
}

// split returns the flows of the node, those of table 0 separately: its guards and miss come first.
func (n *node) split(t *testing.T, c *cluster, more []Object) (behind, first []openflow.Flow) {
	t.Helper()
	wants := c.wants(n, more...)
	for _, shared := range []bool{true, false} {
		for _, f := range wants.Flows {
			_, onPort := f.Match.Get(openflow.FieldInPort)
			if f.Table == tableClassify && shared != onPort {
				first = append(first, f)
			}
		}
	}
	for _, f := range wants.Flows {
		if f.Table != tableClassify {
			behind = append(behind, f)
		}
	}
	return behind, first
}

// file writes lines to a file that the switch's tools can read, and returns its path.
func (n *node) file(t *testing.T, lines []string) string {
	t.Helper()
	path := t.TempDir() + "/flows"
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
