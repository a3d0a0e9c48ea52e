package programmer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/test/testkit"
)

// ruleCompiler gives a rule one flow: its priority is the rule's destination
// port, its match the source port.
type ruleCompiler struct{}

func (ruleCompiler) Base() pipeline.Wants {
	return pipeline.Wants{Flows: []openflow.Flow{{Priority: 1, Cookie: cookie.New(cookie.Base, "")}}}
}

func (ruleCompiler) For(o pipeline.Object, _ uint32) (pipeline.Wants, error) {
	r, ok := o.(pipeline.Rule)
	if !ok {
		return pipeline.Wants{}, nil
	}
	return pipeline.Wants{Flows: []openflow.Flow{{
		Priority: r.DstPort, Cookie: cookie.New(cookie.Policy, r.ID),
		Match: openflow.Match{openflow.InPort(uint32(r.SrcPort))},
	}}}, nil
}

// noPorts is a switch with a tunnel and nothing else.
type noPorts struct{}

func (noPorts) FixedPorts() FixedPorts       { return FixedPorts{Trunk: 1} }
func (noPorts) EndpointNumber(string) uint32 { return 0 }
func (noPorts) Slowed(string) bool           { return false }
func (noPorts) ChangedEndpoints() []string   { return nil }

func rule(n int, priority uint16) pipeline.Rule {
	return pipeline.Rule{ID: fmt.Sprint("r", n), SrcPort: uint16(n + 1), DstPort: priority}
}

// harness is a programmer on a fake switch.
type harness struct {
	t           *testing.T
	inbox       *inbox
	connections chan Switch
	chunk       int
	audit       time.Duration
	ports       Ports
	compiler    Compiler

	mu    sync.Mutex
	state Progress
}

func newHarness(t *testing.T, adjust ...func(*harness)) *harness {
	t.Helper()
	h := &harness{t: t, inbox: newInbox(), connections: make(chan Switch), chunk: defaultChunk, audit: time.Hour,
		ports: noPorts{}, compiler: ruleCompiler{}}
	for _, change := range adjust {
		change(h)
	}
	p := h.programmer()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return h
}

func (h *harness) programmer() *Programmer {
	log := logrus.New()
	log.SetOutput(io.Discard)
	entry := log.WithField("component", "ovsd")
	return &Programmer{
		config: Config{
			Log: entry, Connections: h.connections, Ports: h.ports,
			Compiler: func(_ FixedPorts, can Abilities) Compiler {
				if can.MetersEnd != 0 {
					return pipeline.New(pipeline.Config{TunnelPort: 1, MetersEnd: can.MetersEnd})
				}
				return h.compiler
			},
			ComparesSizes: func(context.Context) (bool, error) { return false, nil },
			Excluded:      func() bool { return false },
			Replaced:      func(_, _ pipeline.Object) {},
			Complete:      func() {},
			Connected:     func() {},
			AuditDue:      func() {},
			Report: func(s Progress) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.state = s
			},
		},
		log: entry, inbox: h.inbox, underlay: underlay{answers: make(chan mtu, 1)}, flusher: flusher{log: entry},
		objects: map[pipeline.Key]pipeline.Object{},
		books:   newBooks(h.chunk), auditor: newAuditor(h.audit, entry),
		refused: refusals{}, invalid: map[pipeline.Key]error{},
	}
}

func (h *harness) connect(sw *fakeSwitch) { h.connections <- sw }

func (h *harness) progress() Progress {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

func (h *harness) sync(keys ...pipeline.Key) error {
	h.t.Helper()
	select {
	case err := <-h.inbox.wait(keys...).done:
		return err
	case <-time.After(time.Minute):
		h.t.Fatal("not in sync within a minute")
		return nil
	}
}

func (h *harness) eventually(what string, condition func() bool) {
	h.t.Helper()
	testkit.Eventually(h.t, time.Minute, what, condition)
}

func manyRules(count int) []pipeline.Object {
	var list []pipeline.Object
	for i := range count {
		list = append(list, rule(i, 50))
	}
	return list
}

func TestChangesThatComeTogetherAreOneBundle(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true})
	for _, o := range manyRules(100) {
		h.inbox.put(drivers.Change{Set: []pipeline.Object{o}})
	}
	h.connect(sw)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	if flows, bundles := sw.count(); flows != 101 || bundles != 1 {
		t.Errorf("%d flows in %d bundles", flows, bundles)
	}
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	if _, bundles := sw.count(); bundles != 1 {
		t.Errorf("nothing to do took %d bundles", bundles-1)
	}
}

// slowCompiler takes a given time.
type slowCompiler struct {
	ruleCompiler
	begun, end chan struct{}
}

func (c slowCompiler) For(o pipeline.Object, port uint32) (pipeline.Wants, error) {
	c.begun <- struct{}{}
	<-c.end
	return c.ruleCompiler.For(o, port)
}

func TestTheSwitchIsNotInSyncWhileAChangeIsComputed(t *testing.T) {
	slow := slowCompiler{begun: make(chan struct{}), end: make(chan struct{})}
	h, sw := newHarness(t, func(h *harness) { h.compiler = slow }), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true})
	h.connect(sw)
	inSync := func() bool { return h.progress().InSync && h.inbox.settled() }
	h.eventually("the switch is in sync", inSync)
	h.inbox.put(drivers.Change{Set: []pipeline.Object{rule(1, 50)}})
	<-slow.begun
	if inSync() {
		t.Error("in sync while a rule is computed that the switch does not have")
	}
	close(slow.end)
	h.eventually("the switch is in sync again", inSync)
	if !sw.has(50) {
		t.Error("in sync without the rule")
	}
}

func TestARefusedObjectHoldsUpNoOtherAndIsTriedAgain(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	all := append(manyRules(100), rule(200, refusedPriority), rule(201, refusedPriority))
	h.inbox.put(drivers.Change{Replace: true, Set: all})
	h.connect(sw)
	err := h.sync()
	if err == nil || !strings.Contains(err.Error(), "rule r200") || !strings.Contains(err.Error(), "rule r201") {
		t.Errorf("error %v", err)
	}
	flows, bundles := sw.count()
	if flows != 101 || bundles > 40 {
		t.Errorf("%d flows in %d bundles", flows, bundles)
	}
	if s := h.progress(); s.InSync || s.Err == nil || !strings.Contains(s.Err.Error(), "switch refuses") {
		t.Errorf("progress %+v", s)
	}
	// Other objects are not delayed, and do not get the error; callers that wait for the refused object do, also
	// while it waits for its next attempt.
	h.inbox.put(drivers.Change{Set: []pipeline.Object{rule(300, 60)}})
	if err := h.sync(rule(300, 60).Key()); err != nil || !sw.has(60) {
		t.Errorf("error %v", err)
	}
	if err := h.sync(rule(200, refusedPriority).Key()); err == nil || strings.Contains(err.Error(), "r201") {
		t.Errorf("error %v", err)
	}
	sw.set(func() { sw.tolerant = true })
	h.eventually("the refused objects are in the switch", func() bool {
		flows, _ := sw.count()
		return flows == 104 && h.progress().InSync
	})
}

func TestARefusedObjectIsForgottenWhenItIsTakenAway(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: []pipeline.Object{rule(1, refusedPriority)}})
	h.connect(sw)
	if err := h.sync(); err == nil {
		t.Error("no error")
	}
	h.inbox.put(drivers.Change{Remove: []pipeline.Key{rule(1, 0).Key()}})
	if err := h.sync(); err != nil {
		t.Error(err)
	}
	h.eventually("all is well", func() bool { return h.progress().InSync })
}

func TestARefusedObjectIsForgottenWhenAnotherTakesItsPlace(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: []pipeline.Object{rule(1, refusedPriority)}})
	h.connect(sw)
	if err := h.sync(); err == nil {
		t.Error("no error")
	}
	stranger := openflow.Flow{Priority: refusedPriority, Match: openflow.Match{openflow.InPort(2)}}
	stranger.Cookie = cookie.New(cookie.Policy, rule(1, 0).ID)
	again := newFakeSwitch()
	again.put(stranger) // this switch already has it
	sw.Close()
	h.connect(again)
	h.eventually("all is well", func() bool { return h.progress().InSync })
}

func TestAnotherConnectionIsLookedAtBeforeItIsWritten(t *testing.T) {
	h, first, second := newHarness(t), newFakeSwitch(), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(3)})
	h.connect(first)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	// The second switch has some of the flows, and one of a removed object.
	for place, f := range first.flows {
		if f.Priority() == 50 {
			second.flows[place] = f
			break
		}
	}
	stale := openflow.Flow{Priority: 70, Cookie: cookie.New(cookie.Policy, "old")}
	second.put(stale)
	first.Close()
	h.eventually("the loss is noticed", func() bool { return !h.progress().Connected })
	h.connect(second)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	if flows, bundles := second.count(); flows != 4 || bundles != 1 || second.has(70) {
		t.Errorf("%d flows in %d bundles", flows, bundles)
	}
}

func TestAConnectionThatEndsDuringABundleIsNobodysFault(t *testing.T) {
	h, first, second := newHarness(t), newFakeSwitch(), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true})
	h.connect(first)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	first.set(func() { first.mute = true })
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(3)})
	synced := h.inbox.wait()
	first.Close()
	h.connect(second)
	if err := <-synced.done; err != nil {
		t.Errorf("Sync: %v", err)
	}
	if flows, _ := second.count(); flows != 4 {
		t.Errorf("%d flows", flows)
	}
	h.eventually("all is well", func() bool { return h.progress().InSync })
}

// The real switch refuses some flows while a bundle is filled, others when it
// is committed.
func TestTheRealSwitchRefusesOneObjectAndTakesTheOthers(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br0")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := openflow.Dial(ctx, s.Bridge("br0"), openflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l := newBooks(defaultChunk)
	for i := range 10 {
		f := openflow.Flow{Priority: uint16(100 + i), Actions: []openflow.Action{openflow.Output{Port: 1}}}
		switch i {
		case 3: // the group does not exist
			f.Actions = []openflow.Action{openflow.OutputGroup{ID: 77}}
		case 7: // to an earlier table
			f.Table, f.Goto = 9, 4
		}
		mustSet(t, l, endpointKey(i), pipeline.Wants{Flows: []openflow.Flow{f}})
	}
	no, err := l.next(nil, never).write(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	if l.pending() != 2 || len(no) != 2 {
		t.Errorf("%d flows not taken, refused: %v", l.pending(), no)
	}
	var refusal *openflow.Error
	if !errors.As(no[endpointKey(3)].err, &refusal) {
		t.Errorf("the group: %v", no[endpointKey(3)])
	}
	if got := strings.Count(s.Ofctl("dump-flows", "br0"), "cookie="); got != 8 {
		t.Errorf("%d flows in the switch", got)
	}
}

func never(pipeline.Key) bool { return false }
