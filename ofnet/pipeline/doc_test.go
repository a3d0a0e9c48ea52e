package pipeline

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const document = "../../docs/pipeline.md"

// Parts of the document are generated from the pipeline and from the output of a switch with the example's flows.
// They are between marks that name them.
func TestTheDocumentSaysWhatThePipelineIs(t *testing.T) {
	c := startCluster(t, web1, web2, db2)
	c.program(tcpRule("deny-new", 1, 0, "syn,!ack", false), tcpRule("allow-sql", 10, 5432, "", true))
	first, second := c.pod(web1), c.pod(db2)
	parts := map[string]string{
		"tables":    tablesText(),
		"registers": registersText(),
		"reasons":   reasonsText(),
		"dump":      first.node.flowText(),
		"sending": first.node.walk(packet{inPort: first.port, src: web1.MAC, dst: AnycastMAC,
			from: web1.IPv4, to: db2.IPv4, kind: "tcp,nw_ttl=64,tp_src=40000,tp_dst=5432,tcp_flags=syn"}.String()),
		"receiving": second.node.walk(packet{inPort: exampleTunnelPort, node: vtep1, vni: dbBlue.VNI, src: AnycastMAC, dst: db2.MAC,
			from: web1.IPv4, to: db2.IPv4, kind: "tcp,nw_ttl=63,tp_src=40000,tp_dst=5432,tcp_flags=syn"}.String()),
		"denied": first.node.walk(packet{inPort: first.port, src: web1.MAC, dst: AnycastMAC,
			from: web1.IPv4, to: db2.IPv4, kind: "tcp,nw_ttl=64,tp_src=40000,tp_dst=22,tcp_flags=syn"}.String()),
		"arp": first.node.walk(fmt.Sprintf("arp,in_port=%d,dl_src=02:02:0a:01:01:01,dl_dst=ff:ff:ff:ff:ff:ff,"+
			"arp_op=1,arp_sha=02:02:0a:01:01:01,arp_spa=%s,arp_tpa=%s", first.port, web1.IPv4, web2.IPv4)),
	}
	for name, part := range bridgedParts(t) {
		parts[name] = part
	}
	parts["vlan"] = "```\n" + vlanText(&Pipeline{features: []any{uplink{port: exampleTunnelPort}}}, vlanBlue, here(vl1)) + "```\n"
	parts["router"] = "```\n" + wantsText(New(Config{UplinkPort: exampleTunnelPort}), routedWorld[2:]...) + "```\n"
	old, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	for name, part := range parts {
		mark := regexp.MustCompile(`(?s)(<!-- begin ` + name + ` -->\n).*?(<!-- end -->)`)
		if !mark.MatchString(text) {
			t.Errorf("%s has no place for %q", document, name)
		}
		text = mark.ReplaceAllStringFunc(text, func(string) string {
			return "<!-- begin " + name + " -->\n" + part + "<!-- end -->"
		})
	}
	if *update {
		if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(string(old), text); diff != "" {
		t.Errorf("%s is out of date (-document +truth; -update rewrites it):\n%s", document, diff)
	}
}

// bridgedParts returns the parts about a bridged network, which has switches of its own.
func bridgedParts(t *testing.T) map[string]string {
	c := startCluster(t, lan1, lan2, lan3)
	c.program(tcpRule("deny-new", 1, 0, "syn,!ack", false))
	first, second := c.pod(lan1), c.pod(lan2)
	all := packet{inPort: first.port, src: lan1.MAC, dst: broadcast, from: lan1.IPv4, to: addr("255.255.255.255")}
	return map[string]string{
		"bridged-one": first.node.walk(packet{inPort: first.port, src: lan1.MAC, dst: lan2.MAC,
			from: lan1.IPv4, to: lan2.IPv4}.String()),
		"bridged-all": first.node.walk(all.String()),
		"bridged-arrival": second.node.walk(packet{inPort: exampleTunnelPort, node: vtep1, vni: lanBlue.VNI, src: all.src, dst: all.dst,
			from: all.from, to: all.to}.String()),
		"bridged-dump": first.node.flowTextOf(Key{KindNetwork, lanBlue.ID}, Key{KindFloodSet, lanBlue.ID}, lan1.Key(), lan2.Key()),
	}
}

// flowTextOf returns the switch's flows for some objects, and its groups.
func (n *node) flowTextOf(objects ...Key) string {
	var b strings.Builder
	b.WriteString("```\n")
	for _, key := range objects {
		fmt.Fprintf(&b, "# %s %s\n", key.Kind, key.ID)
		for _, table := range Tables() {
			b.WriteString(n.sortedFlows(fmt.Sprintf("table=%d,cookie=%#x/-1", table.ID, Cookie(key))))
		}
	}
	b.WriteString("# groups\n")
	for _, line := range slices.Sorted(strings.Lines(n.Ofctl("dump-groups", bridge))) {
		if strings.Contains(line, "group_id=") {
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return b.String() + "```\n"
}

func tablesText() string {
	var b strings.Builder
	b.WriteString("| Table | Name | What happens there | Miss |\n|---|---|---|---|\n")
	for _, table := range Tables() {
		miss := fmt.Sprintf("→ %d", table.Miss)
		switch {
		case table.ID == tableDrop:
			miss = "drop"
		case table.Miss == table.ID:
			miss = "nothing"
		case table.Miss == tableDrop:
			miss = fmt.Sprintf("drop: %s", Reasons()[table.Why-1].Name)
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", table.ID, table.Name, table.Does, miss)
	}
	return b.String()
}

func registersText() string {
	var b strings.Builder
	b.WriteString("| Bits | Name | Meaning |\n|---|---|---|\n")
	for _, r := range Registers() {
		where := fmt.Sprintf("`reg%d`", r.Index)
		switch {
		case r.Bits > 32:
			where = fmt.Sprintf("`reg%d`..`reg%d`", r.Index, r.Index+int(r.Bits-1)/32)
		case r.Bits == 1:
			where = fmt.Sprintf("`reg%d[%d]`", r.Index, r.Ofs)
		case r.Bits < 32:
			where = fmt.Sprintf("`reg%d[%d..%d]`", r.Index, r.Ofs, r.Ofs+r.Bits-1)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", where, r.Name, r.Does)
	}
	return b.String()
}

func reasonsText() string {
	var b strings.Builder
	b.WriteString("| REASON | Name | Which packets |\n|---|---|---|\n")
	for _, r := range Reasons() {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", r.ID, r.Name, r.Does)
	}
	return b.String()
}

// flowText returns the switch's own dump, table by table, the higher priority first.
func (n *node) flowText() string {
	var b strings.Builder
	b.WriteString("```\n")
	for _, table := range Tables() {
		if flows := n.sortedFlows(fmt.Sprintf("table=%d", table.ID)); flows != "" {
			fmt.Fprintf(&b, "# %d %s\n%s", table.ID, table.Name, flows)
		}
	}
	return b.String() + "```\n"
}

func (n *node) sortedFlows(filter string) string {
	dump := strings.TrimSpace(n.Ofctl("--no-stats", "--no-names", "dump-flows", bridge, filter))
	if dump == "" {
		return ""
	}
	flows := strings.Split(dump, "\n")
	for i := range flows {
		flows[i] = strings.TrimSpace(flows[i])
	}
	slices.SortFunc(flows, byPriority)
	return strings.Join(flows, "\n") + "\n"
}

// byPriority compares lines of a dump; the switch's order of equal priorities is random.
func byPriority(a, b string) int {
	var priorities [2]int
	var matches [2]string
	for i, line := range []string{a, b} {
		_, matches[i], _ = strings.Cut(line, "priority=")
		// A line without a priority has 0 and comes last.
		_, _ = fmt.Sscanf(matches[i], "%d", &priorities[i])
	}
	return cmp.Or(cmp.Compare(priorities[1], priorities[0]), cmp.Compare(matches[0], matches[1]))
}

// walk returns the switch's trace of a packet through our bridge. What happens after it, in the underlay, is left
// out, since it has no fixed addresses; so is the choice in a group whose hash only the datapath can compute.
func (n *node) walk(packet string) string {
	trace := n.Appctl("ofproto/trace", bridge, packet)
	_, tables, _ := strings.Cut(trace, "----------------\n")
	tables, _, _ = strings.Cut(tables, "\n\n")
	var b strings.Builder
	b.WriteString("```\n")
	for line := range strings.Lines(tables + "\n") {
		if !strings.Contains(line, "-> tunneling from") && !strings.Contains(line, "-> no live bucket") {
			b.WriteString(line)
		}
	}
	return b.String() + "```\n"
}
