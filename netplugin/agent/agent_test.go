package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAgentWaitsForTheStoreAndKeepsWhatTheSwitchHas(t *testing.T) {
	store, driver := newEtcd(t), newRecorder()
	driver.Update(drivers.Change{Set: []pipeline.Object{pipeline.Network{ID: "old"}}})
	a := startAgent(t, store.db, driver)
	if err := a.Ready(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("ready without a store: %v", err)
	}
	if _, err := a.PreparePort(t.Context(), "web.blue-1", 0); !fault.Is(err, fault.Unavailable) {
		t.Errorf("port without a store: %v", err)
	}
	store.start()
	store.put(vrfKey("blue"), `{"vrf":1}`)
	eventually(t, "the state arrives", func() error { return a.mirrors[0].WaitRevision(t.Context(), 2) })
	eventually(t, "agent waits for the global configuration", func() error {
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "global configuration") {
			return fmt.Errorf("ready says %w", err)
		}
		return nil
	})
	if driver.replacements() != 0 {
		t.Error("the switch was given a state that no netmaster has made")
	}
	store.put(blueState...)
	a.awaitReady(t)
	expectObjects(t, driver, "first state", blueObjects...)
	if driver.replacements() != 1 {
		t.Errorf("%d replacements, want 1", driver.replacements())
	}
}

func TestChangesArriveAndAStoppedAgentLeavesThem(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	store.put(epKey("web.blue-3"), epValue("web.blue", "node2", "10.1.0.4"))
	expectObjects(t, driver, "one more", "network web.blue", "endpoint web.blue-1", "endpoint web.blue-2", "endpoint web.blue-3", "rule "+blueRule)
	a.stop()
	expectObjects(t, driver, "after the stop", "network web.blue", "endpoint web.blue-1", "endpoint web.blue-2", "endpoint web.blue-3", "rule "+blueRule)
	store.del(epKey("web.blue-3"))
	startAgent(t, store.db, driver).awaitReady(t)
	expectObjects(t, driver, "the next agent replaces the state", blueObjects...)
}

func TestStoreKilledAndBackAndCompactedMeanwhile(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	wire := newWire(t, store.url)
	store.put(blueState...)
	a := startAgent(t, openDB(t, wire.url), driver)
	a.awaitReady(t)
	expectObjects(t, driver, "first state", blueObjects...)

	wire.set(true)
	store.del(epKey("web.blue-2"), ruleKey(blueRule))
	revision := store.put(epKey("web.blue-5"), epValue("web.blue", me, "10.1.0.6"))
	store.compact(revision)
	store.stop()
	if err := a.Ready(); err != nil {
		t.Errorf("an agent that works is not ready without its store: %v", err)
	}
	expectObjects(t, driver, "store away", blueObjects...)

	store.start()
	wire.set(false)
	expectObjects(t, driver, "store back", "network web.blue", "endpoint web.blue-1", "endpoint web.blue-5")
	if driver.replacements() != 1 {
		t.Errorf("%d replacements, want 1", driver.replacements())
	}
}

func TestAttachWaitsForTheRevisionAndReportsTheEndpoint(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	const id = "web.blue-7"
	if _, err := a.PreparePort(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	revision := store.put(epKey(id), epValue("web.blue", me, "10.1.0.8"))
	at, err := a.Attach(t.Context(), id, revision)
	if err != nil {
		t.Fatal(err)
	}
	if at.Endpoint.IPAddress != "10.1.0.8" || at.Network.Gateway != "10.1.0.1" || at.Network.SubnetLen != 16 || at.Port.EndpointID != id {
		t.Errorf("got %+v", at)
	}
	if !slices.Contains(driver.has(), "endpoint "+id) {
		t.Error("attached before the switch had the endpoint")
	}
	eventually(t, "report", func() error {
		kv, err := store.db.Get(t.Context(), mastercfg.OperEndpointPrefix+id)
		if err != nil {
			return err
		}
		var record mastercfg.OperEndpointState
		if err := json.Unmarshal(kv.Value, &record); err != nil {
			return err
		}
		if record.PortName != "vport1" || record.HomingHost != me || record.VtepIP != "192.0.2.1" || record.IPAddress != "10.1.0.8" {
			t.Fatalf("reported %+v", record)
		}
		kv, err = store.db.Get(t.Context(), mastercfg.OvsDriverPrefix+me)
		if err != nil || !strings.Contains(string(kv.Value), `"web.blue-7":{"Ovsportname":"vvport1"`) {
			return fmt.Errorf("summary %s, %w", kv.Value, err)
		}
		return nil
	})
	store.del(epKey(id))
	if err := a.Detach(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() error {
		if left := append(store.keys(mastercfg.OperRoot), portIDs(driver)...); len(left) > 0 {
			return fmt.Errorf("left: %q", left)
		}
		if gone := driver.gone(); !slices.Equal(gone, []string{id}) {
			return fmt.Errorf("connections of %q are ended, want of %s", gone, id)
		}
		return nil
	})
}

func portIDs(driver *recorder) []string {
	var ids []string
	for _, port := range driver.Ports() {
		ids = append(ids, port.EndpointID)
	}
	slices.Sort(ids)
	return ids
}

func TestAttachRefusesWithTheCause(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	revision := store.put(
		epKey("app.blue-1"), epValue("app.blue", me, "10.1.0.9"),
		epKey("web.blue-8"), epValue("web.blue", me, "not an address"),
		epKey("web.blue-6"), epValue("web.blue", me, "10.1.0.16"))
	for _, m := range a.mirrors { // each follows its own prefix
		if err := m.WaitRevision(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, id string
		revision int64
		kind     fault.Kind
		text     string
	}{
		{"never created", "web.blue-9", revision, fault.NotFound, "web.blue-9"},
		{"network unknown", "app.blue-1", revision, fault.MissingReference, "app.blue"},
		{"address invalid", "web.blue-8", revision, fault.Invalid, "not an address"},
		{"lives elsewhere", "web.blue-2", revision, fault.Conflict, "node2"},
		{"without a port", "web.blue-6", revision, fault.NotFound, "port of endpoint \"web.blue-6\""},
		{"revision in the future", "web.blue-1", revision + 1000, fault.Unavailable, fmt.Sprint(revision + 1000)},
		{"not yet created, revision unknown", "web.blue-9", 0, fault.Unavailable, "web.blue-9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := time.Minute
			if c.kind == fault.Unavailable { // it waits until the timeout
				limit = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := a.Attach(ctx, c.id, c.revision)
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v (%v), want %v naming %s", err, fault.KindOf(err), c.kind, c.text)
			}
		})
	}
	driver.setAway(true)
	if _, err := a.Attach(t.Context(), "web.blue-1", revision); !fault.Is(err, fault.Unavailable) {
		t.Errorf("switch away: %v", err)
	}
}

func TestAttachWithoutARevisionWaitsForTheEndpoint(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	if _, err := a.PreparePort(t.Context(), "web.blue-7", 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := a.Attach(t.Context(), "web.blue-7", 0)
		done <- err
	}()
	store.put(epKey("web.blue-7"), epValue("web.blue", me, "10.1.0.8"))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPortsWithoutAnEndpointAreRemovedAfterAGraceAndOthersStay(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	for _, id := range []string{"web.blue-1", "web.blue-2", "gone.blue-1"} {
		if _, err := driver.AddPort(t.Context(), pipeline.VXLAN, id, 0); err != nil {
			t.Fatal(err)
		}
	}
	startAgent(t, store.db, driver, func(c *Config) { c.ReapInterval, c.ReapGrace = 20*time.Millisecond, 50*time.Millisecond })
	eventually(t, "only the port of the local endpoint stays", func() error {
		if got := portIDs(driver); !slices.Equal(got, []string{"web.blue-1"}) {
			return fmt.Errorf("ports: %q", got)
		}
		return nil
	})
}

// Container runtimes query readiness while everything else waits: the answer depends neither on the store nor on a
// port that is being created.
func TestWhetherANodeIsReadyIsKnownWithoutTheStoreAndWhilePortsAreMade(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	driver.slow = map[string]bool{"web.blue-8": true}
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	if err := store.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	defer slow.Wait()
	defer cancel()
	made := make(chan struct{})
	slow.Go(func() {
		defer close(made)
		_, _ = a.PreparePort(ctx, "web.blue-8", 0)
	})
	eventually(t, "the port is being made", func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, claimed := a.held.claimed["web.blue-8"]; !claimed {
			return errors.New("nobody has asked for it")
		}
		return nil
	})
	answered := make(chan error, 1)
	go func() { answered <- a.Ready() }()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(4 * time.Second): // requests to the store time out after 5
		t.Error("it waits for somebody")
	}
	select {
	case <-made:
		t.Error("the port was made before")
	default:
	}
}

func TestASlowPortHoldsUpNobodyElse(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	if _, err := driver.AddPort(t.Context(), pipeline.VXLAN, "gone.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	driver.slow = map[string]bool{"web.blue-8": true}
	a := startAgent(t, store.db, driver, func(c *Config) { c.ReapInterval, c.ReapGrace = 20*time.Millisecond, 200*time.Millisecond })
	a.awaitReady(t)
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	slow.Go(func() {
		if _, err := a.PreparePort(ctx, "web.blue-8", 0); err == nil {
			t.Error("the slow port was made")
		}
	})
	defer slow.Wait()
	defer cancel()
	eventually(t, "the orphaned port is removed", func() error {
		if got := portIDs(driver); len(got) > 0 {
			return fmt.Errorf("ports: %q", got)
		}
		return nil
	})
	quick, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, err := a.PreparePort(quick, "web.blue-1", 0); err != nil {
		t.Errorf("another endpoint: %v", err)
	}
	short, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := a.Detach(short, "web.blue-8"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the same endpoint, when the time is over: %v", err)
	}
}

func TestRecordsOfAnEarlierLifeAreCorrectedAtStart(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	if _, err := driver.AddPort(t.Context(), pipeline.VXLAN, "web.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	store.put(
		mastercfg.OperEndpointPrefix+"gone.blue-1", `{"homingHost":"`+me+`"}`,
		mastercfg.OperEndpointPrefix+"other.blue-1", `{"homingHost":"node2"}`,
		mastercfg.OperEndpointPrefix+"broken", `{`,
		mastercfg.OvsDriverPrefix+me, `{"LocalEpInfo":{"gone.blue-1":{}}}`)
	startAgent(t, store.db, driver)
	eventually(t, "reports are those of today", func() error {
		if got := store.keys(mastercfg.OperEndpointPrefix); !slices.Equal(got, []string{"broken", "other.blue-1", "web.blue-1"}) {
			return fmt.Errorf("records %q", got)
		}
		kv, err := store.db.Get(t.Context(), mastercfg.OvsDriverPrefix+me)
		if err != nil || strings.Contains(string(kv.Value), "gone") {
			return fmt.Errorf("summary %s: %w", kv.Value, err)
		}
		return nil
	})
}

func TestPeerWhoseAgentIsDownIsRememberedAcrossARestart(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	store.del(vtepKey("192.0.2.2"))
	store.put(mastercfg.OperEndpointPrefix+"web.blue-2", `{"homingHost":"node2","vtepIP":"192.0.2.2"}`)
	a := newAgent(store.db, driver)
	for _, m := range a.mirrors { // before anything was recalled
		m.complete = true
	}
	a.cache.apply(mastercfg.GlobalConfigKey, []byte(globalValue), 1)
	if access, err := a.HostAccess(); err != nil || access.AllVTEPs {
		t.Errorf("ends of tunnels are said to be complete, which are %v: %v", access.VTEPs, err)
	}
	r := startAgent(t, store.db, driver)
	r.awaitReady(t)
	expectObjects(t, driver, "node2 is reached at its last VTEP", blueObjects...)
	if access, err := r.HostAccess(); err != nil || !access.AllVTEPs || !slices.Equal(access.VTEPs, []netip.Addr{netip.MustParseAddr("192.0.2.2")}) {
		t.Errorf("the host is told of %v (all: %v), %v", access.VTEPs, access.AllVTEPs, err)
	}
}

// There are more hosts than are looked up one by one; of the last one, most endpoints were never reported.
func TestManyPeersWhoseAgentsAreDownAreRemembered(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	var remote []string
	add := func(id, host, address string) {
		store.put(epKey(id), epValue("web.blue", host, address))
		remote = append(remote, "endpoint "+id)
	}
	for i := range recallHosts {
		id, host := fmt.Sprintf("web.blue-h%d", i), fmt.Sprintf("gone%d", i)
		add(id, host, fmt.Sprintf("10.1.1.%d", i))
		store.put(mastercfg.OperEndpointPrefix+id, fmt.Sprintf(`{"homingHost":%q,"vtepIP":"192.0.3.%d"}`, host, i))
	}
	for i := range 2 * recallTries {
		add(fmt.Sprintf("web.blue-l%d", i), "last", fmt.Sprintf("10.1.2.%d", i))
	}
	store.put(mastercfg.OperEndpointPrefix+"web.blue-l7", `{"homingHost":"last","vtepIP":"192.0.4.1"}`)
	startAgent(t, store.db, driver).awaitReady(t)
	slices.Sort(remote)
	last := len(blueObjects) - 1 // endpoints precede the rule
	expectObjects(t, driver, "all are reached at their last VTEPs", slices.Concat(blueObjects[:last], remote, blueObjects[last:])...)
}

func TestStoredForwardingModeCounts(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver, func(c *Config) { c.FwdMode = "bridge" })
	a.awaitReady(t)
	for value, want := range map[string]pipeline.Mode{
		globalValue: pipeline.Routed,
		strings.Replace(globalValue, "routing", "bridge", 1):                                     pipeline.BridgedProxy,
		strings.NewReplacer("routing", "bridge", "proxy", "flood").Replace(globalValue):          pipeline.BridgedFlood,
		strings.NewReplacer("routing", "bridge", `,"arp-mode":"proxy"`, "").Replace(globalValue): pipeline.BridgedProxy,
	} {
		store.put(mastercfg.GlobalConfigKey, value)
		eventually(t, fmt.Sprintf("networks forward as %s says", value), func() error {
			network := driver.object(pipeline.Key{Kind: pipeline.KindNetwork, ID: "web.blue"})
			floods := driver.object(pipeline.Key{Kind: pipeline.KindFloodSet, ID: "web.blue"})
			if n, ok := network.(pipeline.Network); !ok || n.Mode != want || (floods != nil) != want.Bridged() {
				return fmt.Errorf("network %v, flooded to %v", network, floods)
			}
			return a.Ready()
		})
	}
	store.put(mastercfg.GlobalConfigKey, strings.Replace(globalValue, "routing", "l3", 1))
	eventually(t, "a mode without a datapath", func() error {
		if err := a.Ready(); !fault.Is(err, fault.Mode) {
			return fmt.Errorf("ready says %w", err)
		}
		return nil
	})
}

func TestAgentIsReadyOnlyWhenTheSwitchHasTheState(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	driver.setAway(true)
	store.put(blueState...)
	a := startAgent(t, store.db, driver)
	expectObjects(t, driver, "given", blueObjects...)
	if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "switch") {
		t.Errorf("ready says %v", err)
	}
	driver.setAway(false)
	a.awaitReady(t)
	driver.setAway(true)
	var felt interface{ PodsAffected() bool }
	if err := a.Ready(); !fault.Is(err, fault.Unavailable) || !errors.As(err, &felt) || !felt.PodsAffected() {
		t.Errorf("switch gone: %v", err)
	}
}

// A connected switch that accepts no changes falls further and further behind the wanted state.
func TestAnAgentWhoseSwitchTakesNoChangesIsNotReady(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	driver.setOwes(time.Now())
	driver.refuse(pipeline.Key{Kind: pipeline.KindNetwork, ID: "web.blue"})
	a := startAgent(t, store.db, driver)
	expectObjects(t, driver, "given", blueObjects...)
	eventually(t, "it has been asked", func() error {
		if driver.synced() < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "in line") {
		t.Errorf("a switch that has refused all it was given: %v", err)
	}
	driver.setOwes(time.Time{}) // it has accepted everything except that network
	a.awaitReady(t)
	driver.setOwes(time.Now().Add(-owedLong / 2))
	if err := a.Ready(); err != nil {
		t.Errorf("changes have waited for half the time: %v", err)
	}
	driver.setOwes(time.Now().Add(-owedLong - time.Second))
	var felt interface{ PodsAffected() bool }
	if err := a.Ready(); !fault.Is(err, fault.Unavailable) || !errors.As(err, &felt) || !felt.PodsAffected() || !strings.Contains(err.Error(), "takes no changes") {
		t.Errorf("changes have waited for long: %v", err)
	}
}

// The error must show whether only the store is unavailable, which may be so on all nodes at once, or the node's
// own switch does not answer.
func TestAnAgentWithoutTheStoreTellsWhetherItsSwitchAnswers(t *testing.T) {
	driver := newRecorder()
	a := startAgent(t, newEtcd(t).db, driver) // with a store that is not started
	var unread interface{ StoreUnread() bool }
	var felt interface{ PodsAffected() bool }
	err := a.Ready()
	if !fault.Is(err, fault.Unavailable) || !errors.As(err, &unread) || !unread.StoreUnread() || errors.As(err, &felt) {
		t.Errorf("the switch answers: %v", err)
	}
	for what, harm := range map[string]func(bool){"does not answer": driver.setAway, "has lost its flows": driver.setLost} {
		harm(true)
		if err := a.Ready(); !fault.Is(err, fault.Unavailable) || errors.As(err, &unread) || !errors.As(err, &felt) || !felt.PodsAffected() || !strings.Contains(err.Error(), what) {
			t.Errorf("the switch %s: %v", what, err)
		}
		harm(false)
	}
}
