package openflow_test

import (
	"bufio"
	"context"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/ovstest"
)

const patience = time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// bridge starts a switch with a bridge and connects to it.
func bridge(t *testing.T, options openflow.Options) (*ovstest.Switch, *openflow.Conn) {
	t.Helper()
	s := ovstest.Start(t)
	s.AddBridge("br0")
	return s, dial(t, s, options)
}

func dial(t *testing.T, s *ovstest.Switch, options openflow.Options) *openflow.Conn {
	t.Helper()
	c, err := openflow.Dial(testContext(t), s.Bridge("br0"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// dump is what ovs-ofctl prints of the bridge, a line each, in its order.
func dump(s *ovstest.Switch, what string) []string {
	var out string
	switch what {
	case "flows":
		out = s.Ofctl("--no-stats", "--no-names", "dump-flows", "br0")
	case "groups":
		out = s.Ofctl("--no-names", "dump-groups", "br0")
	case "meters":
		out = s.Ofctl("dump-meters", "br0")
	}
	var lines []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "OFPST_") {
			lines = append(lines, line)
		}
	}
	return lines
}

// readFlows reads a file of flows, one a line, as ovs-ofctl takes them.
func readFlows(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		if line := scanner.Text(); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func texts(t *testing.T, c *openflow.Conn) (flows []openflow.Flow, lines []string) {
	t.Helper()
	stats, err := c.Flows(testContext(t), openflow.FlowFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		flows = append(flows, s.Flow)
		lines = append(lines, s.Flow.String())
	}
	return flows, lines
}

// prerequisites of the flows in the tests: things they refer to.
func addGroupAndMeter(t *testing.T, c *openflow.Conn) {
	t.Helper()
	err := c.Send(testContext(t),
		openflow.GroupMod{Group: openflow.Group{ID: 1, Type: openflow.GroupIndirect, Buckets: []openflow.Bucket{{Actions: []openflow.Action{openflow.Output{Port: 1}}}}}},
		openflow.MeterMod{Meter: openflow.Meter{ID: 1, Flags: openflow.MeterKbps, Bands: []openflow.MeterBand{{Rate: 1000}}}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFlowsOfOfctlAreReadPrintedAndWrittenBack(t *testing.T) {
	s, c := bridge(t, openflow.Options{})
	addGroupAndMeter(t, c)
	s.Ofctl("add-flows", "br0", "testdata/flows.txt")
	if got, want := len(dump(s, "flows")), len(readFlows(t, "testdata/flows.txt")); got != want {
		t.Fatalf("%d flows of %d are in the switch", got, want)
	}

	flows, lines := texts(t, c)
	theirs := dump(s, "flows")
	if diff := cmp.Diff(theirs, lines); diff != "" {
		t.Fatalf("ovs-ofctl prints -, we print +:\n%s", diff)
	}

	// What was read is written again, to an empty switch.
	var messages []openflow.Message
	messages = append(messages, openflow.FlowMod{Command: openflow.FlowDelete, Flow: openflow.Flow{Table: openflow.TableAll}})
	for _, f := range flows {
		messages = append(messages, openflow.FlowMod{Flow: f})
	}
	if err := c.Bundle(testContext(t), messages...); err != nil {
		t.Fatal(err)
	}
	again, _ := texts(t, c)
	if !reflect.DeepEqual(byKey(flows), byKey(again)) {
		t.Errorf("flows changed on the way:\n%s", cmp.Diff(byText(flows), byText(again)))
	}
}

func byKey(flows []openflow.Flow) map[string]openflow.Flow {
	m := make(map[string]openflow.Flow)
	for _, f := range flows {
		m[f.MatchKey()] = f
	}
	return m
}

func byText(flows []openflow.Flow) map[string]bool {
	m := make(map[string]bool)
	for _, f := range flows {
		m[f.String()] = true
	}
	return m
}
