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

// Parts of the document are made of the pipeline itself and of what a switch
// with the example's flows says. They stand between marks that name them.
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
		"receiving": second.node.walk(packet{inPort: exampleTunnelPort, vni: dbBlue.VNI, src: AnycastMAC, dst: db2.MAC,
			from: web1.IPv4, to: db2.IPv4, kind: "tcp,nw_ttl=63,tp_src=40000,tp_dst=5432,tcp_flags=syn"}.String()),
		"denied": first.node.walk(packet{inPort: first.port, src: web1.MAC, dst: AnycastMAC,
			from: web1.IPv4, to: db2.IPv4, kind: "tcp,nw_ttl=64,tp_src=40000,tp_dst=22,tcp_flags=syn"}.String()),
		"arp": first.node.walk(fmt.Sprintf("arp,in_port=%d,dl_src=02:02:0a:01:01:01,dl_dst=ff:ff:ff:ff:ff:ff,"+
			"arp_op=1,arp_sha=02:02:0a:01:01:01,arp_spa=%s,arp_tpa=%s", first.port, web1.IPv4, web2.IPv4)),
	}
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

func tablesText() string {
	var b strings.Builder
	b.WriteString("| Table | Name | What happens there | Miss |\n|---|---|---|---|\n")
	for _, table := range Tables() {
		miss := fmt.Sprintf("→ %d", table.Miss)
		switch {
		case table.ID == tableDrop:
			miss = "drop"
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
			where = fmt.Sprintf("`reg%d`..`reg%d`", r.Index, r.Index+int(r.Bits)/32-1)
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

// flowText is the switch's own dump, table by table, the higher priority first.
func (n *node) flowText() string {
	var b strings.Builder
	b.WriteString("```\n")
	for _, table := range Tables() {
		fmt.Fprintf(&b, "# %d %s\n", table.ID, table.Name)
		dump := n.Ofctl("--no-stats", "--no-names", "--rsort", "dump-flows", bridge, fmt.Sprintf("table=%d", table.ID))
		flows := strings.Split(strings.TrimSpace(dump), "\n")
		slices.SortFunc(flows, byPriority)
		for _, flow := range flows {
			b.WriteString(strings.TrimSpace(flow) + "\n")
		}
	}
	return b.String() + "```\n"
}

// byPriority orders lines of a dump; the switch leaves equal priorities to chance.
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

// walk is the switch's account of a packet's way through our bridge. What
// happens behind it, in the underlay, is left out: it has no fixed addresses. So
// is what the trace says of a group whose hash only the datapath can compute.
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
