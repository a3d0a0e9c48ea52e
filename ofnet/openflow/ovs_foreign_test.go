package openflow_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	of "github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/ovstest"
)

// All flows of a switch are read; unknown parts are kept raw, are distinguished, and can be deleted.
func TestAFlowOfAnyActionAndFieldIsReadAndCanBeDeleted(t *testing.T) {
	s, c := bridge(t, of.Options{})
	s.AddForeignThings("br0")
	written := map[uint64]string{}
	for i, flow := range ovstest.ForeignFlows() {
		if err := s.AddForeign("br0", fmt.Sprintf("cookie=%#x,table=1,priority=%d", i+1, i+1), flow); err != nil {
			t.Logf("this switch does not take %s: %v", flow, err)
			continue
		}
		written[uint64(i+1)] = flow
	}
	if len(written) < len(ovstest.ForeignFlows())*9/10 {
		t.Fatalf("the switch takes %d of %d flows only", len(written), len(ovstest.ForeignFlows()))
	}
	flows, err := c.Flows(testContext(t), of.FlowFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(flows) != len(written) {
		t.Errorf("%d of %d flows are read", len(flows), len(written))
	}
	printed := map[string]bool{}
	for _, line := range dump(s, "flows") {
		printed[line] = true
	}
	keys, raw := map[string]bool{}, 0
	for _, f := range flows {
		keys[f.MatchKey()] = true
		switch {
		case f.Raw != nil:
			raw++
			t.Logf("not understood: %s: %v", written[f.Cookie], f.Raw.Err)
		case !printed[f.Flow.String()]:
			t.Errorf("%s is read as %s", written[f.Cookie], f.Flow)
		}
	}
	if len(keys) != len(flows) || raw == 0 {
		t.Errorf("%d flows have %d keys, %d are not understood", len(flows), len(keys), raw)
	}
	streamed := 0
	err = c.EachFlow(testContext(t), of.FlowFilter{}, func(e of.FlowEntry) error {
		streamed++
		if f := e.Flow(); !keys[f.MatchKey()] {
			t.Errorf("%s has another key", f.Flow)
		} else if string(e.AppendKey(nil)) != f.MatchKey() {
			t.Errorf("%s: the switch orders the match in its own way", written[f.Cookie])
		}
		return nil
	})
	if err != nil || streamed != len(flows) {
		t.Errorf("%d of %d flows come one by one: %v", streamed, len(flows), err)
	}
	for _, f := range flows {
		again := f.Flow
		again.Raw = &of.Raw{}
		if f.Raw != nil {
			again.Raw.Match = f.Raw.Match // its actions are not part of a deletion
		}
		if err := c.Send(testContext(t), of.FlowMod{Command: of.FlowDeleteStrict, Flow: again}); err != nil {
			t.Errorf("%s cannot be deleted: %v", written[f.Cookie], err)
		}
	}
	if left := dump(s, "flows"); len(left) != 0 {
		t.Errorf("not deleted:\n%s", strings.Join(left, "\n"))
	}
}

func TestReadingFlowsOneByOneEndsWithTheFirstError(t *testing.T) {
	_, c := bridge(t, of.Options{})
	if err := c.Bundle(testContext(t), manyFlows(5000)...); err != nil {
		t.Fatal(err)
	}
	seen, enough := 0, errors.New("enough")
	err := c.EachFlow(testContext(t), of.FlowFilter{}, func(of.FlowEntry) error {
		if seen++; seen == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || seen != 3 {
		t.Errorf("%d flows, %v", seen, err)
	}
	seen = 0
	count := func(of.FlowEntry) error { seen++; return nil }
	if err := c.EachFlow(testContext(t), of.FlowFilter{}, count); err != nil || seen != 5000 {
		t.Errorf("afterwards %d flows, %v", seen, err)
	}
}

// The switch reports the bytes that we wrote, so that an audit need not parse unchanged flows.
func TestTheSwitchReportsTheBytesThatWereWritten(t *testing.T) {
	_, c := bridge(t, of.Options{})
	install(t, c)
	effects := map[string]string{}
	for _, f := range wideFlows {
		effect, err := f.flow.Effect()
		if err != nil {
			t.Fatal(err)
		}
		effects[f.flow.MatchKey()] = effect
	}
	same := 0
	err := c.EachFlow(testContext(t), of.FlowFilter{}, func(e of.FlowEntry) error {
		effect, ok := effects[string(e.AppendKey(nil))]
		if ok && string(e.AppendEffect(nil)) == effect {
			same++
		} else {
			t.Errorf("said in another way: %s", e.Flow().Flow)
		}
		return nil
	})
	if err != nil || same != len(wideFlows) {
		t.Errorf("%d of %d flows: %v", same, len(wideFlows), err)
	}
}
