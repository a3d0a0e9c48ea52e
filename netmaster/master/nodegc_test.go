package master_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

func TestEndpointsOfALostNodeAreFreedAfterItsGrace(t *testing.T) {
	w := newWorld(t)
	w.post("networks/default:web", `{"tenantName":"default","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24"}`)
	empty := storetest.Dump(t, w.db)
	w.endpoint("", "c1")
	w.endpoint("", "c2")
	for key, value := range map[string]string{mastercfg.OperEndpointPrefix + "web.default-c1": `{}`, mastercfg.OvsDriverPrefix + "h1": `{}`} {
		if _, _, err := w.db.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: key, Value: []byte(value)}}}); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	sweep := func(after time.Duration) {
		t.Helper()
		// Every sweep by another collector: the deadline survives a change of leader.
		if err := master.NewNodeCollector(w.ledger, w.db, time.Hour, w.entry).Sweep(t.Context(), now.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	sweep(0)
	gc := read[mastercfg.NodeGC](w, mastercfg.NodeGCPrefix+"h1")
	if want := now.Add(time.Hour).UTC().Format(time.RFC3339); gc.Deadline != want {
		t.Errorf("deadline %s, want %s", gc.Deadline, want)
	}
	withEndpoints := storetest.Dump(t, w.db)
	sweep(59 * time.Minute)
	if diff := cmp.Diff(withEndpoints, storetest.Dump(t, w.db)); diff != "" {
		t.Errorf("before the deadline: %s", diff)
	}
	sweep(61 * time.Minute)
	if diff := cmp.Diff(empty, storetest.Dump(t, w.db)); diff != "" {
		t.Errorf("after the deadline: %s", diff)
	}
}

func TestANodeThatComesBackKeepsItsEndpoints(t *testing.T) {
	w := newWorld(t)
	w.post("networks/default:web", `{"tenantName":"default","networkName":"web","encap":"vxlan","subnet":"10.7.0.0/24"}`)
	w.endpoint("", "c1")
	before := storetest.Dump(t, w.db)
	collector := master.NewNodeCollector(w.ledger, w.db, time.Hour, w.entry)
	now := time.Now()
	if err := collector.Sweep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	registration, err := w.db.Register(t.Context(), 10*time.Second,
		objdb.Service{ServiceName: mastercfg.AgentVTEPService, HostAddr: "10.0.0.1", Port: 4789, Hostname: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 5*time.Second, "the agent is registered", func() bool {
		services, err := w.db.Services(t.Context(), mastercfg.AgentVTEPService)
		return err == nil && len(services) == 1
	})
	if err := collector.Sweep(t.Context(), now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, storetest.Dump(t, w.db)); diff != "" {
		t.Error(diff)
	}
	if err := registration.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
