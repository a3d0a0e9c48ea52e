package pipeline

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/ofnet/openflow"
)

var update = flag.Bool("update", false, "rewrite the golden files and the generated parts of docs/pipeline.md")

// goldenObjects are shown to every feature.
var goldenObjects = []Object{
	webBlue,
	here(web1),
	web2,
	rule("groups-port", 10, func(r *Rule) {
		r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort, r.Allow = front, store, 6, 5432, true
	}),
	rule("back", 10, func(r *Rule) {
		r.SrcGroup, r.DstGroup, r.Protocol, r.SrcPort, r.Allow = store, front, 17, 53, true
	}),
	rule("new-connections", 1, func(r *Rule) { r.DstGroup, r.Protocol, r.TCPFlags = store, 6, "syn,!ack" }),
	rule("icmp", 100, func(r *Rule) { r.DstGroup, r.Protocol = store, 1 }),
	rule("igmp", 5, func(r *Rule) { r.Protocol = 2 }),
	rule("ipv4-networks", 20, func(r *Rule) { r.Src, r.Dst = prefix("10.1.1.7/24"), prefix("10.1.2.1/32") }),
	rule("ipv6-network", 20, func(r *Rule) { r.Src, r.Protocol = prefix("fd00:1::/64"), 1 }),
	rule("any-ipv4", 2, func(r *Rule) { r.Src = prefix("0.0.0.0/0") }),
	rule("everything", 1, func(*Rule) {}),
}

// dump prints flows as ovs-ofctl dump-flows --no-stats does, under a heading.
func dump(heading string, flows []openflow.Flow) string {
	if len(flows) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", heading)
	for _, f := range flows {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

func TestEveryFeatureWantsTheFlowsOfItsGoldenFile(t *testing.T) {
	all := node1()
	for _, f := range all.features {
		name := reflect.TypeOf(f).Name()
		t.Run(name, func(t *testing.T) {
			alone := &Pipeline{config: all.config, features: []feature{f}}
			got := dump("base", alone.Base().Flows)
			for _, o := range goldenObjects {
				got += dump(fmt.Sprintf("%s %s", o.Key().Kind, o.Key().ID), flowsOf(alone, o, examplePort))
			}
			compareGolden(t, filepath.Join("testdata", name+".golden"), got)
		})
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what the pipeline wants (-file +pipeline; -update rewrites it):\n%s", file, diff)
	}
}
