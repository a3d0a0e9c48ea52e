package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func podEndpoint(network, host, ip, uid string) string {
	return epValue(network, host, ip)[:len(epValue(network, host, ip))-1] + `,"podNamespace":"shop","podUID":"` + uid + `"}`
}

// A pod is isolated until everything that evaluates it is known, in whatever order that arrives.
func TestAPodIsIsolatedUntilItsClassIsKnown(t *testing.T) {
	const id = "web.blue-pod"
	n := blueHere(t)
	n.step()
	sees := func(when string, class uint16, tiers pipeline.Tiers) {
		t.Helper()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindEndpoint, ID: id})
		if e, ok := o.(pipeline.Endpoint); err != nil || !ok || e.Class != class || e.Tiers != tiers {
			t.Errorf("%s: %+v, %v; want class %d, tiers %d", when, o, err, class, tiers)
		}
	}
	pod, class := mastercfg.K8sPodKey("node1", "u1"), mastercfg.K8sClassKey(7)
	n.put(epKey(id), podEndpoint("web.blue", "node1", "10.1.0.30", "u1")).expect("its endpoint", "+endpoint "+id)
	sees("without a record", 0, isolated)
	n.put(pod, `{"namespace":"shop","name":"web","uid":"u1"}`).expect("a record without a class")
	n.put(pod, `{"namespace":"shop","name":"web","uid":"u1","class":7,"classed":true}`).expect("its class", "+endpoint "+id)
	sees("of a class without a record", 7, isolated)
	n.put(class, `{"judgesIn":true}`).expect("the class", "+endpoint "+id)
	sees("all is known", 7, pipeline.JudgesIn|pipeline.Tracked)
	n.put(pod, `{"namespace":"shop","name":"web","uid":"u1","classed":true}`).expect("no policy names it any more", "+endpoint "+id)
	sees("of no class", 0, pipeline.Tracked) // a policy may be added later
}

// Kubelets give static pods from one URL the same UID. Each has the class of its own record.
func TestStaticPodsOfOneURLHaveClassesOfTheirOwn(t *testing.T) {
	const here, there, uid = "web.blue-here", "web.blue-there", "5f1e"
	n := blueHere(t)
	n.step()
	sees := func(when string, known bool) {
		t.Helper()
		for id, class := range map[string]uint16{here: 7, there: 8} {
			if id == there && !known {
				class = 0
			}
			if got, _ := n.cache.tiers.tiersOf(n.cache.endpoints[id]); got != class {
				t.Errorf("%s: %s has class %d, want %d", when, id, got, class)
			}
		}
		if !n.cache.isAttached(uid) {
			t.Errorf("%s: the pod of this node is not attached", when)
		}
	}
	n.put(epKey(here), podEndpoint("web.blue", "node1", "10.1.0.30", uid))
	n.put(epKey(there), podEndpoint("web.blue", "node2", "10.1.0.31", uid))
	n.put(mastercfg.K8sPodKey("node1", uid), `{"uid":"5f1e","class":7,"classed":true}`)
	n.put(mastercfg.K8sPodKey("node2", uid), `{"uid":"5f1e","class":8,"classed":true}`)
	sees("both are there", true)
	n.del(mastercfg.K8sPodKey("node2", uid))
	sees("one is deleted", false)
	n.del(epKey(here))
	if n.cache.isAttached(uid) {
		t.Error("the pod of the other node counts as attached here")
	}
}

// A node has the rules for its own endpoints.
func TestRulesAreWhereTheirSubjectsAre(t *testing.T) {
	const id, rule = "web.blue-pod", "+tier rule networkpolicy/shop/p#0"
	n := blueHere(t)
	n.step()
	policy := mastercfg.K8sPolicyPrefix + "networkpolicy/shop/p"
	pod := mastercfg.K8sPodKey("node1", "u1")
	n.put(mastercfg.K8sEpochKey, `{"number":3}`).expect("an epoch", "+epoch tiers")
	n.put(policy, `{"spec":"a","rules":[{"tier":1,"verdict":"accept","subjects":[7],"peers":[8],"nets":["10.0.0.0/8"],"ports":[{"protocol":6,"first":80,"last":81}]}]}`).
		expect("about nobody here")
	n.put(mastercfg.K8sClassKey(7), `{}`).expect("a class of nobody here")
	n.put(pod, `{"uid":"u1","class":7,"classed":true}`).expect("a pod without an endpoint")
	n.put(epKey(id), podEndpoint("web.blue", "node1", "10.1.0.30", "u1")).expect("a subject", "+endpoint "+id, rule)
	n.put(policy, `{"spec":"a","rules":[{"tier":1,"verdict":"perhaps","subjects":[7]}]}`).expect("nonsense", "-"+rule[1:])
	n.put(policy, `{"spec":"b","rules":[{"tier":1,"verdict":"accept","subjects":[7,9],"anyPeer":true}]}`).expect("sense", rule)
	n.del(epKey(id)).expect("the subject goes", "-"+rule[1:], "-endpoint "+id)
	if _, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindTierRule, ID: "networkpolicy/shop/p#0"}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	n.del(policy, mastercfg.K8sEpochKey).expect("no policies", "-epoch tiers")
}

// In bridged networks a node judges what the endpoints of other nodes flood, so it has the rules for their egress.
func TestRulesForTheEgressOfAllAreWhereNetworksAreBridged(t *testing.T) {
	const id, out, in = "web.blue-2", "tier rule clusternetworkpolicy/p#0", "tier rule clusternetworkpolicy/p#1"
	n := blueHere(t)
	n.step()
	pod := mastercfg.K8sPodKey("node2", "u2")
	n.put(mastercfg.K8sClassKey(7), `{"judgesOut":true}`)
	n.put(mastercfg.K8sClassKey(8), `{"judgesOut":true}`)
	n.put(mastercfg.K8sPolicyPrefix+"clusternetworkpolicy/p",
		`{"spec":"a","rules":[{"verdict":"deny","out":true,"subjects":[7],"peers":[9]},{"verdict":"deny","subjects":[7],"peers":[9]}]}`)
	n.put(mastercfg.K8sEpochKey, `{"number":3}`)
	n.put(pod, `{"uid":"u2","class":7,"classed":true}`)
	n.put(epKey(id), podEndpoint("web.blue", "node2", "10.1.0.3", "u2")).expect("routed", "+endpoint "+id, "+epoch tiers")
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"bridge"}`).
		expect("bridged", "+network web.blue", "+endpoint web.blue-1", "+endpoint "+id, "+flood set web.blue", "+"+out)
	n.put(mastercfg.K8sClassKey(7), `{"judgesOut":true,"isolatesOut":true}`).expect("policies isolate it", "+endpoint "+id)
	n.put(pod, `{"uid":"u2","class":8,"classed":true}`).expect("of another class", "+endpoint "+id)
	n.put(mastercfg.K8sEpochKey, `{"number":4}`).expect("the epoch of the change", "+epoch tiers")
	n.put(mastercfg.K8sEpochKey, `{"number":5}`).expect("one more", "-"+out, "+epoch tiers")
	n.put(pod, `{"uid":"u2","class":7,"classed":true}`).expect("of its class again", "+endpoint "+id, "+"+out)
	n.put(epKey(id), podEndpoint("web.blue", "node1", "10.1.0.3", "u2")).expect("it moves here, without its record", "+endpoint "+id, "+flood set web.blue")
	n.put(mastercfg.K8sPodKey("node1", "u2"), `{"uid":"u2","class":7,"classed":true}`).expect("and its record", "+endpoint "+id, "+"+in)
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`).
		expect("routed again", "-flood set web.blue", "+network web.blue", "+endpoint web.blue-1", "+endpoint "+id)
}

// A denying rule for any pod has "any peer" for agents of earlier versions: to this one that means pods.
func TestARuleAboutAnyPodIsNotAboutEverybody(t *testing.T) {
	for verdict, anyPeer := range map[string]bool{"deny": true, "accept": false} {
		rule, err := tierRule("p#0", mastercfg.TierRule{Verdict: verdict, Subjects: []uint16{7}, AnyPeer: anyPeer, AnyPod: true})
		if err != nil || rule.AnyPeer || !rule.AnyPod {
			t.Errorf("%s: %+v, %v", verdict, rule, err)
		}
	}
}

// Flows of the datapath that are not revalidated yet classify by the old class: rules for that remain for an
// epoch.
func TestRulesAboutTheClassBeforeStayForAnEpoch(t *testing.T) {
	const id, old, new = "web.blue-pod", "tier rule clusternetworkpolicy/old#0", "tier rule clusternetworkpolicy/new#0"
	n := blueHere(t)
	n.step()
	pod := mastercfg.K8sPodKey("node1", "u1")
	for name, class := range map[string]string{"old": "7", "new": "8"} {
		n.put(mastercfg.K8sClassPrefix+class, `{"judgesIn":true}`)
		n.put(mastercfg.K8sPolicyPrefix+"clusternetworkpolicy/"+name, `{"spec":"a","rules":[{"verdict":"deny","subjects":[`+class+`],"anyPeer":true}]}`)
	}
	n.put(mastercfg.K8sEpochKey, `{"number":3}`)
	n.put(pod, `{"uid":"u1","class":7,"classed":true}`)
	n.put(epKey(id), podEndpoint("web.blue", "node1", "10.1.0.30", "u1")).expect("a subject", "+endpoint "+id, "+"+old, "+epoch tiers")
	n.put(mastercfg.K8sEpochKey, `{"number":400}`) // of a new leader
	n.put(pod, `{"uid":"u1","class":8,"classed":true}`).expect("of another class", "+endpoint "+id, "+"+new, "+epoch tiers")
	n.put(mastercfg.K8sEpochKey, `{"number":500}`).expect("the epoch after", "+epoch tiers")
	n.put(mastercfg.K8sEpochKey, `{"number":501}`).expect("one more", "-"+old, "+epoch tiers")
	n.del(epKey(id)).expect("the subject goes", "-"+new, "-endpoint "+id)
}

// The node reports an epoch once the switch has it, with everything that belongs to it.
func TestTheNodeTellsWhichEpochItsSwitchHas(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(append(blueState, mastercfg.K8sEpochKey, `{"number":3}`)...)
	driver.refuse(pipeline.Key{Kind: pipeline.KindEndpoint, ID: "web.blue-1"}) // no policy
	startAgent(t, store.db, driver).awaitReady(t)
	tells := func(want string) {
		t.Helper()
		eventually(t, "the epoch is told", func() error {
			kv, err := store.db.Get(t.Context(), mastercfg.K8sEnforcedKey(me))
			if err == nil && string(kv.Value) != want {
				err = fmt.Errorf("%s, want %s", kv.Value, want)
			}
			return err
		})
	}
	tells(`{"number":3}`)
	number := 5
	for ; ; number++ { // the first one may meet checks after the start
		asked := driver.portsAsked()
		store.put(mastercfg.K8sEpochKey, fmt.Sprintf(`{"number":%d}`, number))
		tells(fmt.Sprintf(`{"number":%d}`, number))
		if driver.portsAsked() == asked {
			break
		}
		if number == 8 {
			t.Fatal("all ports are looked at for each epoch")
		}
	}
	driver.setAway(true)
	store.put(mastercfg.K8sEpochKey, `{"number":4}`)
	eventually(t, "the driver is given an epoch", func() error {
		if driver.object(pipeline.Epoch{}.Key()) != pipeline.Object(pipeline.Epoch{Number: 4}) {
			return errors.New("not yet")
		}
		return nil
	})
	tells(fmt.Sprintf(`{"number":%d}`, number))
	driver.setAway(false)
	tells(`{"number":4}`)

	// netmaster released the node, which was only disconnected.
	own, registration := vtepKey("192.0.2.1"), vtepValue(me, "192.0.2.1")
	store.del(own)
	store.del(mastercfg.K8sEnforcedKey(me))
	store.put(own, registration)
	tells(`{"number":4}`)
}

// A refused policy is reported with the epoch, and again once the switch accepts it, even without other changes.
func TestARefusedPolicyIsToldUntilTheSwitchTakesIt(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	rule := "networkpolicy/shop/p"
	driver.refuse(pipeline.Key{Kind: pipeline.KindTierRule, ID: rule + "#0"})
	store.put(append(blueState, mastercfg.K8sEpochKey, `{"number":3}`, mastercfg.K8sClassKey(7), `{}`, mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`,
		epKey("web.blue-pod"), podEndpoint("web.blue", me, "10.1.0.30", "u1"),
		mastercfg.K8sPolicyPrefix+rule, `{"spec":"a","rules":[{"tier":1,"verdict":"accept","subjects":[7],"anyPeer":true}]}`)...)
	store.put(mastercfg.K8sPolicyPrefix+"networkpolicy/shop/q", `{"spec":"a","rules":[{"tier":1,"verdict":"accept","subjects":[7],"anyPeer":true}]}`)
	startAgent(t, store.db, driver).awaitReady(t)
	tells := func(when string, refused int) {
		t.Helper()
		eventually(t, when, func() error {
			var got mastercfg.K8sEnforced
			kv, err := store.db.Get(t.Context(), mastercfg.K8sEnforcedKey(me))
			if err == nil {
				err = json.Unmarshal(kv.Value, &got)
			}
			if err == nil && (got.Number != 3 || len(got.Refused) != refused || (got.Refused[rule] != "") != (refused > 0) || got.More) {
				err = fmt.Errorf("%s", kv.Value)
			}
			return err
		})
	}
	tells("one is refused", 1)
	driver.refuse(pipeline.Key{})
	tells("none is", 0)
}

// A record in the store is small, however many policies are refused.
func TestOfManyRefusedPoliciesTheFirstAreTold(t *testing.T) {
	driver := &refusing{recorder: newRecorder()}
	a := &Agent{cfg: Config{Driver: driver}, planner: newPlanner()}
	for i := range 3 * maxRefused {
		key := pipeline.Key{Kind: pipeline.KindTierRule, ID: fmt.Sprintf("networkpolicy/shop/p%03d#0", i)}
		a.planner.given[key] = pipeline.TierRule{}
	}
	got, err := a.enforcement(t.Context(), 3)
	if err != nil || len(got.Refused) != maxRefused || !got.More || got.Refused["networkpolicy/shop/p000"] == "" || got.Number != 3 {
		t.Errorf("%d are told of, more: %v, error %v", len(got.Refused), got.More, err)
	}
	for _, reason := range got.Refused {
		if len(reason) > maxReason {
			t.Errorf("%d bytes", len(reason))
		}
	}
	if driver.asked > 4*maxRefused {
		t.Errorf("asked %d times", driver.asked)
	}
}

// A node is ready as soon as the switch has what it accepts; the refused policies are determined afterwards.
func TestTheSearchForRefusedPoliciesHoldsNobodyUp(t *testing.T) {
	store := newEtcd(t).start()
	driver := &searched{recorder: newRecorder(), open: make(chan struct{})}
	rule := "networkpolicy/shop/p"
	driver.refuse(pipeline.Key{Kind: pipeline.KindTierRule, ID: rule + "#0"})
	store.put(append(blueState, mastercfg.K8sEpochKey, `{"number":3}`, mastercfg.K8sClassKey(7), `{}`, mastercfg.K8sPodKey(me, "u1"), `{"uid":"u1","class":7,"classed":true}`,
		epKey("web.blue-pod"), podEndpoint("web.blue", me, "10.1.0.30", "u1"),
		mastercfg.K8sPolicyPrefix+rule, `{"spec":"a","rules":[{"tier":1,"verdict":"accept","subjects":[7],"anyPeer":true}]}`)...)
	a := startAgent(t, store.db, driver)
	defer close(driver.open)
	a.awaitReady(t)
}

// searched is a switch that answers for rules only once open is closed.
type searched struct {
	*recorder
	open chan struct{}
}

func (s *searched) Sync(ctx context.Context, keys ...pipeline.Key) error {
	if len(keys) > 0 && keys[0].Kind == pipeline.KindTierRule {
		select {
		case <-s.open:
		case <-ctx.Done():
		}
	}
	return s.recorder.Sync(ctx, keys...)
}

// One refused rule of a policy gives the reason, and the others are not checked.
func TestOfAPolicyOneRefusedRuleIsEnough(t *testing.T) {
	driver := &refusing{recorder: newRecorder()}
	a := &Agent{cfg: Config{Driver: driver}, planner: newPlanner()}
	for i := range 1000 {
		key := pipeline.Key{Kind: pipeline.KindTierRule, ID: fmt.Sprintf("networkpolicy/shop/p#%d", i)}
		a.planner.given[key] = pipeline.TierRule{}
	}
	got, err := a.enforcement(t.Context(), 3)
	if err != nil || len(got.Refused) != 1 || driver.asked > 20 {
		t.Errorf("asked %d times, told of %d, error %v", driver.asked, len(got.Refused), err)
	}
}

// refusing is a switch that refuses every rule.
type refusing struct {
	*recorder
	asked int
}

func (r *refusing) Sync(_ context.Context, keys ...pipeline.Key) error {
	r.asked++
	if keys[0].Kind != pipeline.KindTierRule {
		return nil
	}
	return fault.New(fault.Invalid, "%s", strings.Repeat("no ", maxReason))
}

// The connections of endpoints are flushed when the endpoints are deleted, wherever they were, not when this node
// no longer needs to know them.
func TestConnectionsOfEndpointsThatAreGoneAreEnded(t *testing.T) {
	n := blueHere(t)
	leave := func() (ids []string) {
		change, _ := n.planner.plan(n.cache, everything)
		for _, e := range change.Left {
			ids = append(ids, e.ID)
		}
		return ids
	}
	n.del(vrfKey("blue"))
	if ids := leave(); len(ids) != 0 {
		t.Errorf("without a VRF connections of %q are ended", ids)
	}
	n.put(vrfKey("blue"), `{"vrf":1}`)
	leave()
	n.del(epKey("web.blue-2"))
	if ids := leave(); !slices.Equal(ids, []string{"web.blue-2"}) {
		t.Errorf("connections of %q are ended, want of the one elsewhere", ids)
	}
	n.del(epKey("web.blue-1"))
	if ids := leave(); !slices.Equal(ids, []string{"web.blue-1"}) {
		t.Errorf("connections of %q are ended, want of the one here", ids)
	}
}

// An endpoint recreated with the same id since this node's last check no longer has its former addresses, which
// another endpoint may have by now.
func TestConnectionsOfAnAddressThatAnEndpointHasNoMoreAreEnded(t *testing.T) {
	n := blueHere(t)
	n.put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.9"))
	n.put(epKey("web.blue-3"), epValue("web.blue", me, "10.1.0.2"))
	change, _ := n.planner.plan(n.cache, everything)
	if len(change.Left) != 1 || change.Left[0].ID != "web.blue-1" || change.Left[0].IPv4 != netip.MustParseAddr("10.1.0.2") {
		t.Errorf("left are %+v, want the first address of web.blue-1", change.Left)
	}
	n.put(epKey("web.blue-1"), strings.Replace(epValue("web.blue", me, "10.1.0.9"), "{", `{"labels":{"a":"b"},`, 1))
	if change, _ := n.planner.plan(n.cache, everything); len(change.Left) != 0 {
		t.Errorf("with the same address, left are %+v", change.Left)
	}
}

// A report that the store has applied without an answer is read again before the next one is compared with it.
func TestAReportOfPoliciesWhoseAnswerIsLostIsNotTakenForTheOneBefore(t *testing.T) {
	m, now := newMemory(), time.Unix(1000, 0)
	r, key := newReporter(m), mastercfg.K8sEnforcedKey(me)
	tell := func(epoch uint32) error {
		if err := r.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * enforcedEvery)
		_, err := r.reportEnforced(t.Context(), mastercfg.K8sEnforced{Number: epoch}, now)
		return err
	}
	if err := tell(1); err != nil {
		t.Fatal(err)
	}
	m.refuse = []error{fault.New(fault.Unavailable, "no answer")}
	if err := tell(2); err == nil {
		t.Fatal("it is not told that there is no answer")
	}
	m.put(key, []byte(`{"number":2}`)) // it had been applied
	if err := tell(1); err != nil || string(m.kvs[key].Value) != `{"number":1}` {
		t.Errorf("the store has %s: %v", m.kvs[key].Value, err)
	}
}
