package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// attachBlue attaches a container to endpoint web.blue-1.
func attachBlue(t *testing.T, a *running) Attachment {
	t.Helper()
	if _, err := a.PreparePort(t.Context(), "web.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	at, err := a.Attach(t.Context(), "web.blue-1", 0)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func expectUnannounced(t *testing.T, a *running, want ...string) {
	t.Helper()
	eventually(t, "unannounced endpoints", func() error {
		if got := a.Unannounced(); !slices.Equal(got, want) {
			return fmt.Errorf("unannounced: %q, want %q", got, want)
		}
		return nil
	})
}

// soon shortens the intervals of slow loops.
func soon(c *Config) {
	c.ReapInterval, c.ReapGrace, c.SweepGrace = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
}

// Removing services deletes thousands of keys at once.
func TestADroppedKeyIsNotComparedWithEveryContainer(t *testing.T) {
	h := newHeld(Config{})
	var at Attachment
	at.Endpoint.NetID, at.Network.Tenant = "default-net.blue", "blue"
	for i := range 100 {
		h.attached[fmt.Sprint("default-net.blue-", i)] = at
	}
	if n := testing.AllocsPerRun(10, func() { h.needs(mastercfg.K8sBackendPrefix + "blue/shop/web/http/10.1.1.1:80") }); n > 1 {
		t.Errorf("%.0f allocations for a backend that goes, beside 100 containers", n)
	}
}

func TestWhatAnAttachedContainerNeedsStaysWhenTheStoreLosesIt(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver, soon)
	a.awaitReady(t)
	attachBlue(t, a)
	const orphan = "web.blue-9"
	if _, err := driver.AddPort(t.Context(), pipeline.VXLAN, orphan, 0); err != nil {
		t.Fatal(err)
	}
	wiped := store.del(epKey("web.blue-1"), epKey("web.blue-2"), netKey("web.blue"), vrfKey("blue"), mastercfg.GlobalConfigKey)
	for _, m := range a.mirrors { // each follows its own prefix
		if err := m.WaitRevision(t.Context(), wiped); err != nil {
			t.Fatal(err)
		}
	}
	expectObjects(t, driver, "only the endpoint elsewhere goes", "network web.blue", "endpoint web.blue-1", "rule "+blueRule)
	eventually(t, "the port that nobody holds is removed, the other stays", func() error {
		if got := portIDs(driver); !slices.Equal(got, []string{"web.blue-1"}) {
			return fmt.Errorf("ports: %q", got)
		}
		return nil
	})
	if got := a.Unannounced(); len(got) > 0 {
		t.Errorf("a store that no netmaster has set up lacks %q", got)
	}
	store.put(mastercfg.GlobalConfigKey, globalValue)
	expectUnannounced(t, a, "web.blue-1")
	store.put(blueState...)
	expectUnannounced(t, a)
	expectObjects(t, driver, "all is back", blueObjects...)

	store.del(epKey("web.blue-1"))
	expectUnannounced(t, a, "web.blue-1")
	if err := a.Detach(t.Context(), "web.blue-1"); err != nil {
		t.Fatal(err)
	}
	expectObjects(t, driver, "detached: nothing of the tenant is needed any more")
	expectUnannounced(t, a)
}

func TestContainerOfAnEarlierRunIsServedFromAStoreThatHasLostIt(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	before := startAgent(t, store.db, driver, soon)
	before.awaitReady(t)
	at := attachBlue(t, before)
	before.stop()
	store.del(epKey("web.blue-1"), epKey("web.blue-2"), netKey("web.blue"), vrfKey("blue"))

	a := newAgent(store.db, driver, soon)
	a.Hold(at)
	r := runAgent(t, a)
	r.awaitReady(t)
	expectObjects(t, driver, "the held endpoint and its network", "network web.blue", "endpoint web.blue-1", "rule "+blueRule)
	expectUnannounced(t, r, "web.blue-1")
	if got := portIDs(driver); !slices.Equal(got, []string{"web.blue-1"}) {
		t.Errorf("ports: %q", got)
	}
	eventually(t, "what the store does not know is not reported", func() error {
		if keys := store.keys(mastercfg.OperEndpointPrefix); len(keys) > 0 {
			return fmt.Errorf("reported: %q", keys)
		}
		return nil
	})
}

func TestContainerOfAnOlderReleaseIsServedOnceItsRecordsAreKnown(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := newAgent(store.db, driver, soon)
	a.Hold(Attachment{Endpoint: mastercfg.CfgEndpointState{ID: "web.blue-1", NetID: "web.blue"}})
	r := runAgent(t, a)
	r.awaitReady(t)
	at, err := a.Await(t.Context(), "web.blue-1", 0)
	if err != nil {
		t.Fatal(err)
	}
	a.Hold(at)
	store.del(epKey("web.blue-1"), epKey("web.blue-2"), netKey("web.blue"), vrfKey("blue"))
	expectObjects(t, driver, "the held endpoint and its network", "network web.blue", "endpoint web.blue-1", "rule "+blueRule)
	expectUnannounced(t, r, "web.blue-1")
}

func TestWhatAnEarlierRunReportedOfAnEndpointThatTheStoreHasLostGoes(t *testing.T) {
	for name, vrf := range map[string]uint16{"held with its records": 1, "held by an older release": 0} {
		t.Run(name, func(t *testing.T) {
			store, driver := newEtcd(t).start(), newRecorder()
			store.put(mastercfg.GlobalConfigKey, globalValue)
			// The summary, by which an agent finds its reports, is written later.
			store.put(mastercfg.OperEndpointPrefix+"web.blue-1", `{"id":"web.blue-1"}`)
			a := newAgent(store.db, driver)
			a.Hold(Attachment{VRF: vrf,
				Endpoint: mastercfg.CfgEndpointState{ID: "web.blue-1", NetID: "web.blue", HomingHost: me},
				Network:  mastercfg.CfgNetworkState{ID: "web.blue", Tenant: "blue"}})
			runAgent(t, a).awaitReady(t)
			eventually(t, "the report is withdrawn", func() error {
				if keys := store.keys(mastercfg.OperEndpointPrefix); len(keys) > 0 {
					return fmt.Errorf("reported: %q", keys)
				}
				return nil
			})
		})
	}
}

func TestWhatAStoreThatWentBackLacksStaysForAWhile(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	const grace = 300 * time.Millisecond
	a := startAgent(t, store.db, driver, func(c *Config) { c.RewindGrace = grace })
	a.awaitReady(t)
	expectObjects(t, driver, "first state", blueObjects...)
	lost := []mirror.Event{{Key: epKey("web.blue-2")}, {Key: ruleKey(blueRule)}}
	began := time.Now()
	a.takeIn(a.mirrors[0], mirror.Batch{Revision: 1, Another: true, Events: lost})
	eventually(t, "lost objects go in the end", func() error {
		if got := driver.has(); len(got) == len(blueObjects) {
			return fmt.Errorf("switch has %q", got)
		}
		return nil
	})
	if kept := time.Since(began); kept < grace {
		t.Errorf("what the store had lost was kept for %s, less than %s", kept, grace)
	}
	a.takeIn(a.mirrors[0], mirror.Batch{Revision: 2, Events: []mirror.Event{{Key: ruleKey(blueRule), Value: []byte(ruleValue(blueRule, "allow"))}}})
	expectObjects(t, driver, "what comes again is taken", "network web.blue", "endpoint web.blue-1", "rule "+blueRule)
}

func TestANodeThatMovedWhileNobodyListenedIsNotRefused(t *testing.T) {
	logger, messages := logtest.NewNullLogger()
	a := New(Config{HostLabel: me, DB: openDB(t, testkit.FreeURL()), Log: logger.WithField("component", "agent")})
	registry := a.mirrors[slices.Index(followed, objdb.ServicePrefix)]
	came := func(vtep string) mirror.Event {
		return mirror.Event{Key: vtepKey(vtep), Value: []byte(vtepValue("node2", vtep))}
	}
	a.takeIn(registry, mirror.Batch{Revision: 1, Snapshot: true, Events: []mirror.Event{came("192.0.2.2")}})
	a.takeIn(registry, mirror.Batch{Revision: 2, Events: []mirror.Event{came("192.0.2.9"), {Key: vtepKey("192.0.2.2")}}})
	if got := a.cache.peers.vtep["node2"].String(); got != "192.0.2.9" || len(messages.AllEntries()) > 0 {
		t.Errorf("node2 is at %s; logged: %+v", got, messages.LastEntry())
	}
}

func TestKeptNetworkMakesWayForOneWithItsNumbers(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	attachBlue(t, a)
	store.del(epKey("web.blue-1"), epKey("web.blue-2"), netKey("web.blue"), vrfKey("blue"))
	expectUnannounced(t, a, "web.blue-1")
	other := netValue("red", "")
	if !strings.Contains(other, "red") {
		t.Fatal("network of another tenant expected")
	}
	store.put(vrfKey("red"), `{"vrf":1}`, netKey("web.red"), other, epKey("web.red-1"), epValue("web.red", me, "10.1.0.2"))
	expectObjects(t, driver, "the tenant with the number wins", "network web.red", "endpoint web.red-1")
}

// At the start the driver gets the ids of all existing endpoints, served here or not, unless the store has lost
// records.
func TestDriverIsToldWhoExists(t *testing.T) {
	store := newEtcd(t).start()
	store.put(blueState...)
	store.put(vtepKey("192.0.2.2"), vtepValue("node3", "192.0.2.2"), epKey("web.red-1"), epValue("web.red", "node3", "10.1.0.9"))
	driver := newRecorder()
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	expectObjects(t, driver, "the endpoint elsewhere has no node", "network web.blue", "endpoint web.blue-1", "rule "+blueRule)
	if got := slices.Sorted(slices.Values(driver.known)); !slices.Equal(got, []string{"web.blue-1", "web.blue-2", "web.red-1"}) {
		t.Errorf("known: %q", got)
	}
	at := attachBlue(t, a)
	a.stop()

	store.del(epKey("web.blue-1"))
	driver = newRecorder()
	next := newAgent(store.db, driver)
	next.Hold(at)
	runAgent(t, next).awaitReady(t)
	if driver.known != nil {
		t.Errorf("known in a store that lacks an attached container: %q", driver.known)
	}
}

// A store that no netmaster has set up yet says nothing of what was lost with the one before: what is kept of that stays until it is.
func TestWhatIsKeptDoesNotExpireBeforeTheStoreIsSetUp(t *testing.T) {
	now := time.Now()
	h := newHeld(Config{})
	h.absent[epKey("web.blue-2")], h.absent[mastercfg.GlobalConfigKey] = now.Add(-time.Hour), now.Add(-time.Hour)
	if keys, next := h.expired(now); len(keys) > 0 || !next.IsZero() {
		t.Errorf("%q expire, the next at %s", keys, next)
	}
	delete(h.absent, mastercfg.GlobalConfigKey)
	if keys, _ := h.expired(now); !slices.Equal(keys, []string{epKey("web.blue-2")}) {
		t.Errorf("%q expire when it is set up", keys)
	}
}

// While the store cannot be read nobody can say what it lacks.
func TestNothingIsAnnouncedWhileTheStoreIsAway(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver, soon)
	a.awaitReady(t)
	const lost = "web.blue-lost"
	a.Hold(Attachment{Endpoint: mastercfg.CfgEndpointState{ID: lost, NetID: "web.blue"}})
	expectUnannounced(t, a, lost)
	store.stop()
	expectUnannounced(t, a)
	store.start()
	expectUnannounced(t, a, lost)
}

func TestContainersGoOnWhenTheStoreIsSetUpAnew(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver, soon, func(c *Config) { c.RewindGrace = time.Second })
	a.awaitReady(t)
	attachBlue(t, a)
	eventually(t, "the endpoint is reported", func() error {
		if keys := store.keys(mastercfg.OperEndpointPrefix); len(keys) != 1 {
			return fmt.Errorf("reported: %q", keys)
		}
		return nil
	})
	store.wipe()
	store.put("/contiv.io/state/unrelated", "{}")
	eventually(t, "the new store is followed", func() error { return a.mirrors[0].WaitRevision(t.Context(), 1) })
	store.put(mastercfg.GlobalConfigKey, globalValue)
	expectUnannounced(t, a, "web.blue-1")
	expectObjects(t, driver, "what another node has not announced in time goes", "network web.blue", "endpoint web.blue-1")
	store.put(blueState...)
	expectUnannounced(t, a)
	expectObjects(t, driver, "all is back", blueObjects...)
	eventually(t, "the endpoint is reported again", func() error {
		if keys := store.keys(mastercfg.OperEndpointPrefix); len(keys) != 1 {
			return fmt.Errorf("reported: %q", keys)
		}
		return nil
	})
	if got := portIDs(driver); !slices.Equal(got, []string{"web.blue-1"}) {
		t.Errorf("ports: %q", got)
	}
}

// netmaster does not send a node the policies of a tenant without endpoints there. While the container still runs
// here, they remain in force until the store has its endpoint again.
func TestAContainerKeepsItsPoliciesUntilTheStoreHasItAgain(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver, soon, func(c *Config) { c.Shown = true })
	a.awaitReady(t)
	attachBlue(t, a)
	ruleKey := mastercfg.PolicyRulePrefix + blueRule
	withheld := store.del(ruleKey, epKey("web.blue-1"), epKey("web.blue-2"), netKey("web.blue"), vrfKey("blue"))
	eventually(t, "the deletion is seen", func() error { return a.mirrors[0].WaitRevision(t.Context(), withheld) })
	expectUnannounced(t, a, "web.blue-1")
	expectObjects(t, driver, "withheld", "network web.blue", "endpoint web.blue-1", "rule "+blueRule)
	store.put(blueState...)
	expectUnannounced(t, a)
	expectObjects(t, driver, "announced", blueObjects...)
	store.del(ruleKey)
	expectObjects(t, driver, "a rule that is deleted goes at once", blueObjects[:3]...)
}

// The same if the agent starts after netmaster has removed the node's endpoints.
func TestTheFirstStateWaitsForContainersToBeAnnounced(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	before := startAgent(t, store.db, driver, soon)
	before.awaitReady(t)
	at := attachBlue(t, before)
	before.stop()
	store.del(mastercfg.PolicyRulePrefix+blueRule, epKey("web.blue-1"), epKey("web.blue-2"), netKey("web.blue"), vrfKey("blue"))

	a := newAgent(store.db, driver, soon, func(c *Config) { c.Shown, c.AnnounceWait = true, time.Minute })
	a.Hold(at)
	r := runAgent(t, a)
	expectUnannounced(t, r, "web.blue-1") // before the first state is complete
	expectObjects(t, driver, "the switch has what it had", blueObjects...)
	store.put(blueState...)
	r.awaitReady(t)
	expectObjects(t, driver, "announced", blueObjects...)
	driver.mu.Lock()
	defer driver.mu.Unlock()
	if !slices.Contains(driver.known, "web.blue-1") {
		t.Errorf("the first state had the endpoints %q", driver.known)
	}
}

// A rule that is deleted while the store lacks one of several endpoints of a tenant is deleted here, too.
func TestARuleIsDeletedWhileOneOfSeveralContainersIsUnknown(t *testing.T) {
	h := newHeld(Config{Shown: true})
	for _, name := range []string{"a", "b"} {
		var at Attachment
		at.Network.Tenant = "blue"
		h.attached["web.blue-"+name] = at
	}
	ruleKey := mastercfg.PolicyRulePrefix + blueRule
	for _, step := range []struct {
		lost  string
		keeps bool
	}{{"a", false}, {"b", true}} {
		h.absent[mastercfg.EndpointPrefix+"web.blue-"+step.lost] = time.Time{}
		if h.needs(ruleKey) != step.keeps || h.needs(mastercfg.PolicyRulePrefix+"red"+blueRule) || h.needs(mastercfg.K8sPolicyPrefix+"x") {
			t.Errorf("%s is lost, too: the rule is kept: %v", step.lost, h.needs(ruleKey))
		}
	}
	if h.shown = false; h.needs(ruleKey) {
		t.Error("a rule is kept that the store itself has deleted")
	}
}
