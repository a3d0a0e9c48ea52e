package ovsd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// programmed returns the complete content of the bridge, one item a line.
func (n *node) programmed() string {
	n.t.Helper()
	lines := n.flows()
	for _, what := range []string{"dump-groups", "dump-meters"} {
		lines = append(lines, strings.Split(n.Ofctl(what, bridge), "\n")[1:]...) // after the line that names the answer
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// first returns the number of the first group or meter with a text in its line.
func (n *node) first(dump, id, text string) string {
	n.t.Helper()
	for line := range strings.Lines(n.Ofctl(dump, bridge)) {
		if _, rest, found := strings.Cut(line, id+"="); found && strings.Contains(line, text) {
			return rest[:strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })]
		}
	}
	n.t.Fatalf("no %s with %q:\n%s", id, text, n.Ofctl(dump, bridge))
	return ""
}

// When a group or meter is deleted, the switch deletes the flows that use it.
func TestAnAuditRepairsGroupsAndMeters(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 100 * time.Millisecond
	logger, messages := logtest.NewNullLogger()
	n.config.Log = logger.WithField("component", "ovsd")
	r := n.start()
	client, provider := n.newPod(r, 1), n.newPod(r, 2)
	client.endpoint.Limits = pipeline.Limits{Rate: 104_857}
	provider.start(echo)
	change := everything(client, provider)
	change.Set = append(change.Set, shop(provider))
	r.give(change)
	before := n.programmed()
	group, meter := n.first("dump-groups", "group_id", "ct(commit"), n.first("dump-meters", "meter", "kbps")
	for _, c := range []struct {
		what, kind string
		command    []string
	}{
		{"a deleted group", "groups", []string{"del-groups", bridge, "group_id=" + group}},
		{"all groups deleted", "groups", []string{"del-groups", bridge}},
		{"an emptied group", "groups", []string{"mod-group", bridge, "group_id=" + group + ",type=select"}},
		{"a group with other buckets", "groups", []string{"mod-group", bridge, "group_id=" + group + ",type=select,bucket=actions=drop"}},
		{"a group of somebody else", "groups", []string{"add-group", bridge, "group_id=77,type=all,bucket=actions=drop"}},
		{"a deleted meter", "meters", []string{"del-meter", bridge, "meter=" + meter}},
		{"all meters deleted", "meters", []string{"del-meters", bridge}},
		{"a changed meter", "meters", []string{"mod-meter", bridge, "meter=" + meter + ",kbps,burst,stats,bands=type=drop,rate=7,burst_size=7"}},
		{"a meter of somebody else", "meters", []string{"add-meter", bridge, "meter=77,kbps,bands=type=drop,rate=7"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			messages.Reset()
			n.Ofctl(c.command...)
			eventually(t, "flows, groups and meters are back", func() bool { return n.programmed() == before })
			if !slices.ContainsFunc(messages.AllEntries(), func(e *logrus.Entry) bool { return e.Data[c.kind] != nil }) {
				t.Errorf("nobody is told of %s", c.kind)
			}
			if got := client.start(talk, "10.1.0.200", "0")(); got != "0 enough" {
				t.Errorf("connections lost, others answered: %s", got)
			}
			eventually(t, "in sync", func() bool { return r.Status().InSync })
		})
	}
}
