package ovsdb

import (
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

func TestAnIndexFollowsTheRows(t *testing.T) {
	s := startServer(t)
	bridges := NewTable[bridgeRow]("Bridge", nil)
	byOwner := bridges.Index(func(b bridgeRow) string { return b.ExternalIDs["owner"] })
	newClient(t, s, bridges)
	owned := func(owner string) string {
		var names []string
		for _, b := range byOwner.Rows(owner) {
			names = append(names, b.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, step := range []struct {
		command string
		a, b    string // what belongs to a and b
	}{
		{"add-br br1 -- add-br br2 -- set Bridge br1 external_ids:owner=a", "br1", ""},
		{"set Bridge br2 external_ids:owner=a", "br1 br2", ""},
		{"set Bridge br1 external_ids:owner=b", "br2", "br1"},
		{"remove Bridge br2 external_ids owner", "", "br1"},
		{"del-br br1", "", ""},
	} {
		s.vsctl(strings.Fields(step.command)...)
		testkit.Eventually(t, patience, step.command, func() bool { return owned("a") == step.a && owned("b") == step.b })
	}
	if row, ok := byOwner.Row("a"); ok {
		t.Errorf("found %+v", row)
	}
	if len(byOwner.rows) != 0 {
		t.Errorf("left in the index: %v", byOwner.rows)
	}
}
