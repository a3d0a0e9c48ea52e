package master_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// lostNode has two endpoints on an unregistered node, with its reports. It returns the store's content without
// them.
func lostNode(t *testing.T) (*world, map[string]string) {
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
	return w, empty
}

// collector is that of a new leader.
func (w *world) collector() *master.NodeCollector {
	return master.NewNodeCollector(w.ledger, w.db, master.NewCooldown(time.Now), time.Hour, w.entry)
}

func (w *world) sweep(c *master.NodeCollector, now time.Time) {
	w.Helper()
	if err := c.Sweep(w.Context(), now); err != nil {
		w.Fatal(err)
	}
}

// onNode has a container on a node that is not registered.
func (w *world) onNode(host string) {
	w.Helper()
	w.post(mastercfg.CreateEndpointPath, `{"TenantName":"default","NetworkName":"web","ConfigEP":{"Host":"`+host+`","Container":"of-`+host+`"}}`)
}

// full is the ledger of a store that has no room for the record of another node.
type full struct{ master.Ledger }

func (l full) Update(ctx context.Context, plan func(*ledger.Tx) error) (int64, error) {
	return l.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		before := records(tx)
		if err := plan(tx); err != nil {
			return err
		}
		if records(tx) > before {
			return fault.New(fault.Exhausted, "the store is full")
		}
		return nil
	})
}

func records(tx *ledger.Tx) (n int) {
	tx.Range(mastercfg.NodeGCPrefix, func(string, []byte) bool { n++; return true })
	return n
}

func (w *world) endpoints() int {
	w.Helper()
	kvs, _, err := w.db.List(w.Context(), mastercfg.EndpointPrefix)
	if err != nil {
		w.Fatal(err)
	}
	return len(kvs)
}

const registrationOfH1 = objdb.ServicePrefix + mastercfg.AgentVTEPService + "/192.0.2.1:4789"

// sees waits until the ledger has a key, or no longer has it.
func (w *world) sees(key string, there bool) {
	w.Helper()
	testkit.Eventually(w, time.Minute, "the ledger follows", func() (is bool) {
		err := w.ledger.View(func(r ledger.Reader) error {
			r.Range(objdb.ServicePrefix+mastercfg.AgentVTEPService+"/", func(found string, _ []byte) bool {
				is = is || found == key
				return true
			})
			return nil
		})
		return err == nil && is == there
	})
}

// A node that was removed has no time: also where a leader counts it down already, and it is registered until its
// lease ends.
func TestEndpointsOfANodeThatWasRemovedAreFreedWhenItsLeaseHasEnded(t *testing.T) {
	for _, counted := range []bool{false, true} {
		w, empty := lostNode(t)
		c, now := w.collector(), time.Now()
		if counted {
			w.sweep(c, now)
		}
		register := func(change objdb.Txn) {
			t.Helper()
			if _, _, err := w.db.Txn(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			w.sees(registrationOfH1, len(change.Puts) > 0)
		}
		register(objdb.Txn{Puts: []objdb.KV{{Key: registrationOfH1, Value: []byte(`{"Hostname":"h1"}`)}}})
		if _, err := w.ledger.Update(t.Context(), func(tx *ledger.Tx) error { return master.NodeRemoved(tx, "h1", now) }); err != nil {
			t.Fatal(err)
		}
		w.sweep(c, now.Add(30*time.Second))
		if n := w.endpoints(); n != 2 {
			t.Errorf("%d endpoints are left while it is registered", n)
		}
		register(objdb.Txn{Deletes: []string{registrationOfH1}})
		w.sweep(c, now.Add(time.Minute))
		w.sweep(c, now.Add(5*time.Minute)) // a node without records is forgotten
		if diff := cmp.Diff(empty, storetest.Dump(t, w.db)); diff != "" {
			t.Errorf("counted before: %v: %s", counted, diff)
		}
	}
}

// One that is registered later is back, and has its time again.
func TestANodeThatWasRemovedAndIsBackKeepsItsEndpoints(t *testing.T) {
	w, _ := lostNode(t)
	c, now := w.collector(), time.Now()
	if _, _, err := w.db.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: registrationOfH1, Value: []byte(`{"Hostname":"h1"}`)}}}); err != nil {
		t.Fatal(err)
	}
	w.sees(registrationOfH1, true)
	if _, err := w.ledger.Update(t.Context(), func(tx *ledger.Tx) error { return master.NodeRemoved(tx, "h1", now) }); err != nil {
		t.Fatal(err)
	}
	w.sweep(c, now.Add(3*time.Minute))
	if left, _, err := w.db.List(t.Context(), mastercfg.NodeGCPrefix); err != nil || len(left) != 0 || w.endpoints() != 2 {
		t.Errorf("%d records, %d endpoints, %v", len(left), w.endpoints(), err)
	}
}

func TestEndpointsOfALostNodeAreFreedAfterItsGrace(t *testing.T) {
	w, empty := lostNode(t)
	now := time.Now()
	c := w.collector()
	w.sweep(c, now)
	gc := read[mastercfg.NodeGC](w, mastercfg.NodeGCPrefix+"h1")
	if want := now.Add(time.Hour).UTC().Format(time.RFC3339); gc.Deadline != want || gc.Remaining != "1h0m0s" {
		t.Errorf("deadline %s, want %s; %s remain", gc.Deadline, want, gc.Remaining)
	}
	w.sweep(c, now.Add(59*time.Minute))
	if w.endpoints() != 2 {
		t.Error("freed before the time is over")
	}
	w.sweep(c, now.Add(61*time.Minute))
	if diff := cmp.Diff(empty, storetest.Dump(t, w.db)); diff != "" {
		t.Errorf("after the time: %s", diff)
	}
}

func TestTheTimeOfANodePassesThroughChangesOfLeader(t *testing.T) {
	w, empty := lostNode(t)
	now := time.Now()
	for range 5 { // each leads for 15 minutes
		c := w.collector()
		w.sweep(c, now)
		if w.endpoints() == 0 {
			break
		}
		for range 15 {
			now = now.Add(time.Minute)
			w.sweep(c, now)
		}
	}
	if diff := cmp.Diff(empty, storetest.Dump(t, w.db)); diff != "" {
		t.Errorf("after five terms of 15 minutes: %s", diff)
	}
}

func TestALeaderWhoseClockIsAheadFreesNothingEarly(t *testing.T) {
	w, _ := lostNode(t)
	now := time.Now()
	w.sweep(w.collector(), now)
	ahead := w.collector()
	w.sweep(ahead, now.Add(48*time.Hour))
	w.sweep(ahead, now.Add(48*time.Hour+50*time.Minute))
	if w.endpoints() != 2 {
		t.Error("endpoints were freed although nobody saw the node gone for an hour")
	}
}

func TestANodeThatComesBackKeepsItsEndpoints(t *testing.T) {
	w, _ := lostNode(t)
	collector := w.collector()
	now := time.Now()
	w.sweep(collector, now)
	registration, err := w.db.Register(t.Context(), 10*time.Second,
		objdb.Service{ServiceName: mastercfg.AgentVTEPService, HostAddr: "10.0.0.1", Port: 4789, Hostname: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, "the agent is registered", func() bool {
		services, err := w.db.Services(t.Context(), mastercfg.AgentVTEPService)
		return err == nil && len(services) == 1
	})
	// The ledger may not know yet: the transaction's guards detect it.
	w.sweep(collector, now.Add(2*time.Hour))
	if w.endpoints() != 2 {
		t.Error("endpoints of a node that is back were freed")
	}
	if _, err := w.db.Get(t.Context(), mastercfg.OvsDriverPrefix+"h1"); err != nil {
		t.Errorf("its report was deleted: %v", err)
	}
	testkit.Eventually(t, 20*time.Second, "the node is forgotten", func() bool {
		w.sweep(collector, now.Add(2*time.Hour))
		_, err := w.db.Get(t.Context(), mastercfg.NodeGCPrefix+"h1")
		return fault.Is(err, fault.NotFound)
	})
	if err := registration.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTheReportOfAnEndpointThatIsMadeAgainStays(t *testing.T) {
	w, _ := lostNode(t)
	now := time.Now()
	again := &remade{world: w}
	c := master.NewNodeCollector(w.ledger, again, master.NewCooldown(time.Now), time.Hour, w.entry)
	w.sweep(c, now)
	w.sweep(c, now.Add(2*time.Hour))
	if _, err := w.db.Get(t.Context(), mastercfg.OperEndpointPrefix+"web.default-c1"); err != nil {
		t.Errorf("its report was deleted: %v", err)
	}
}

// remade makes an endpoint again before its report is deleted.
type remade struct {
	*world
	once bool
}

func (r *remade) List(ctx context.Context, prefix string) ([]objdb.KV, int64, error) {
	return r.db.List(ctx, prefix)
}

func (r *remade) Txn(ctx context.Context, txn objdb.Txn) (int64, bool, error) {
	if !r.once {
		r.once = true
		r.post(mastercfg.CreateEndpointPath, `{"TenantName":"default","NetworkName":"web","ConfigEP":{"Host":"h2","Container":"c1"}}`)
	}
	return r.db.Txn(ctx, txn)
}

func TestAddressesOfPodsOfALostNodeRest(t *testing.T) {
	w := newCoolingPods(t, "10.1.0.0/16", "")
	w.want("first", w.add("c1", "u1"), "10.1.0.1")
	c := master.NewNodeCollector(w.ledger, w.db, w.cooldown, time.Hour, w.entry)
	w.sweep(c, w.now)
	w.sweep(c, w.now.Add(2*time.Hour))
	if n := w.endpoints(); n > 0 {
		t.Fatalf("%d endpoints are left", n)
	}
	w.want("another pod", w.add("c2", "u2"), "10.1.0.2")
	w.want("next attempt", w.add("c3", "u1"), "10.1.0.1")
}

func TestANodeThatCannotBeNotedKeepsNoOtherFromBeingLookedAfter(t *testing.T) {
	w, _ := lostNode(t)
	w.onNode("a")
	w.onNode("k")
	now := time.Now()
	w.damage(mastercfg.NodeGCPrefix+"k", `{"id":"k","remaining":"0s"}`)
	w.damage(mastercfg.NodeGCPrefix+"back", `{"id":"back","remaining":"30m"}`)
	c := master.NewNodeCollector(full{w.ledger}, w.db, master.NewCooldown(time.Now), time.Hour, w.entry)
	if err := c.Sweep(t.Context(), now); !fault.Is(err, fault.Exhausted) {
		t.Errorf("the records of a and h1 do not fit: %v", err)
	}
	left := storetest.Dump(t, w.db)
	for _, gone := range []string{mastercfg.EndpointPrefix + "web.default-of-k", mastercfg.NodeGCPrefix + "k", mastercfg.NodeGCPrefix + "back"} {
		if value, there := left[gone]; there {
			t.Errorf("%s is there still: %s", gone, value)
		}
	}
	// Their time passes although the remainder could not be recorded.
	if err := c.Sweep(t.Context(), now.Add(59*time.Minute)); !fault.Is(err, fault.Exhausted) || w.endpoints() != 3 {
		t.Errorf("before the time is over %d endpoints are left (%v)", w.endpoints(), err)
	}
	if _ = c.Sweep(t.Context(), now.Add(61*time.Minute)); w.endpoints() != 0 {
		t.Errorf("after the time %d endpoints are left", w.endpoints())
	}
	w.sweep(c, now.Add(62*time.Minute))
}

func TestAnEndpointThatCannotBeDeletedKeepsNoOtherOfALostNode(t *testing.T) {
	w := populated(t)
	const network, stuck = mastercfg.NetworkPrefix + "web.default", mastercfg.EndpointPrefix + "web.default-c1"
	w.post(mastercfg.UpdateEndpointPath, `{"Event":"start","Tenant":"default","Network":"web","EndpointID":"c1","ContainerID":"k1","Labels":{"app":"web"}}`)
	w.post(mastercfg.UpdateEndpointPath, `{"Event":"die","ContainerID":"k3"}`)
	sound := storetest.Dump(t, w.db)[network]
	w.damage(network, `{`) // which the services of c1 are found by
	c := w.collector()
	now := time.Now()
	w.sweep(c, now)
	err := c.Sweep(t.Context(), now.Add(61*time.Minute))
	if _, there := storetest.Dump(t, w.db)[stuck]; err == nil || !strings.Contains(err.Error(), "web.default-c1") || w.endpoints() != 1 || !there {
		t.Errorf("%d endpoints are left (%v)", w.endpoints(), err)
	}
	w.damage(network, sound)
	w.sweep(w.collector(), now.Add(62*time.Minute)) // by the record the time is over
	if w.endpoints() != 0 {
		t.Errorf("%d endpoints are left of a node without damage", w.endpoints())
	}
}

// A lost node's reports on endpoints are deleted, too, if an operator has freed the endpoints before, or a
// collection could not delete the reports: nothing else in the store names the node then.
func TestWhatANodeReportedOfEndpointsGoesWithThem(t *testing.T) {
	for name, free := range map[string]func(*world, time.Time){
		"freed by an operator": func(w *world, _ time.Time) {
			w.request("DELETE", "/debug/epcleanup/tenant/default/net/web", "")
		},
		"an interrupted collection": func(w *world, now time.Time) {
			c := master.NewNodeCollector(w.ledger, failing{w}, master.NewCooldown(time.Now), time.Hour, w.entry)
			w.sweep(c, now)
			if err := c.Sweep(w.Context(), now.Add(2*time.Hour)); err == nil {
				w.Error("reports are deleted")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := lostNode(t)
			if _, _, err := w.db.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: mastercfg.OperEndpointPrefix + "web.default-c1", Value: []byte(`{"homingHost":"h1"}`)},
				{Key: mastercfg.OperEndpointPrefix + "web.default-c9", Value: []byte(`{"homingHost":"h9"}`)}}}); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			free(w, now)
			c := w.collector()
			w.sweep(c, now.Add(3*time.Hour))
			w.sweep(c, now.Add(4*time.Hour))
			var left []string
			for key := range storetest.Dump(t, w.db) {
				for _, prefix := range []string{mastercfg.OperEndpointPrefix, mastercfg.OvsDriverPrefix, mastercfg.NodeGCPrefix} {
					if strings.HasPrefix(key, prefix) {
						left = append(left, key)
					}
				}
			}
			if len(left) != 1 || left[0] != mastercfg.OperEndpointPrefix+"web.default-c9" {
				t.Errorf("left are %q", left)
			}
		})
	}
}

// failing finds reports and cannot delete any.
type failing struct{ *world }

func (f failing) List(ctx context.Context, prefix string) ([]objdb.KV, int64, error) {
	return f.db.List(ctx, prefix)
}

func (f failing) Txn(context.Context, objdb.Txn) (int64, bool, error) {
	return 0, false, fault.New(fault.Unavailable, "no answer")
}

// A node that leaves a cluster after its pods has no endpoint: its agent's last reports are deleted all the same.
func TestWhatANodeReportedGoesWithItWhenItHasNoEndpoint(t *testing.T) {
	w, _ := lostNode(t)
	c, now := w.collector(), time.Now()
	reports := []objdb.KV{{Key: mastercfg.K8sEnforcedKey("h9"), Value: []byte(`{"number":7}`)}, {Key: mastercfg.K8sEnforcedKey("h1"), Value: []byte(`{"number":7}`)}}
	if _, _, err := w.db.Txn(t.Context(), objdb.Txn{Puts: reports}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ledger.Update(t.Context(), func(tx *ledger.Tx) error { return master.NodeRemoved(tx, "h9", now) }); err != nil {
		t.Fatal(err)
	}
	w.sweep(c, now.Add(time.Minute)) // it may be back still
	w.sweep(c, now.Add(3*time.Minute))
	left, _, err := w.db.List(t.Context(), mastercfg.K8sEnforcedPrefix)
	if err != nil || len(left) != 1 || left[0].Key != reports[1].Key {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A node that was drained, and whose agent was stopped without a removal, leaves no report; a node that is there, or
// has endpoints still, keeps its own.
func TestWhatADrainedNodeReportedGoesWithoutARemoval(t *testing.T) {
	w, _ := lostNode(t) // h1 has endpoints
	const h2 = objdb.ServicePrefix + mastercfg.AgentVTEPService + "/192.0.2.2:4789"
	if _, _, err := w.db.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: h2, Value: []byte(`{"Hostname":"h2"}`)}}}); err != nil {
		t.Fatal(err)
	}
	w.sees(h2, true)
	var reports []objdb.KV
	for _, host := range []string{"h1", "h2", "h9"} {
		reports = append(reports, objdb.KV{Key: mastercfg.K8sEnforcedKey(host), Value: []byte(`{"number":7}`)},
			objdb.KV{Key: mastercfg.OvsDriverPrefix + host, Value: []byte(`{}`)})
	}
	if _, _, err := w.db.Txn(t.Context(), objdb.Txn{Puts: reports}); err != nil {
		t.Fatal(err)
	}
	w.sweep(w.collector(), time.Now())
	for i, host := range []string{"h1", "h2", "h9"} {
		for _, report := range reports[2*i : 2*i+2] {
			if _, err := w.db.Get(t.Context(), report.Key); fault.Is(err, fault.NotFound) != (host == "h9") {
				t.Errorf("%s: %v", report.Key, err)
			}
		}
	}
}
