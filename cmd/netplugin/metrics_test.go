package main

import (
	"context"
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/metriclint"
	"github.com/contiv/netplugin/test/testkit"
)

// Netplugin's metrics are named by the conventions, and each is in the table of the operators' page.
func TestMetricsAreNamedAndListed(t *testing.T) {
	o := &options{runDir: t.TempDir(), uplinks: []string{"eth1"}}
	o.node.VTEP = netip.MustParseAddr("192.0.2.1")
	driver, own, routes, err := newDriver(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := newMetrics(own, routes)
	if err != nil {
		t.Fatal(err)
	}
	db, err := objdb.Open(objdb.Config{Endpoints: []string{"http://127.0.0.1:1"}, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	node := agent.New(agent.Config{HostLabel: "node1", Driver: driver, DB: db, Metrics: metrics, Log: testkit.Quiet()})
	ended, end := context.WithCancel(t.Context())
	end()
	if err := node.Run(ended); err != nil { // which registers its own
		t.Fatal(err)
	}
	if err := newNameServer(&o.names, nil, node, own).Register(metrics); err != nil {
		t.Fatal(err)
	}
	metriclint.Check(t, metrics, "netplugin", "../../docs/operations.md")
}
