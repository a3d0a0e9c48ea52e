package openflow

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

var twoFlows = []Message{FlowMod{Flow: Flow{Table: 1}}, FlowMod{Flow: Flow{Table: 2}}}

func TestABundleWithARefusedMessageIsDiscarded(t *testing.T) {
	operations := make(chan bundleOp, 10)
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(xid uint32, m Message) bool {
			switch m := m.(type) {
			case bundleControl:
				operations <- m.op
			case bundleAdd:
				if m.xid != xid {
					t.Errorf("id %d outside, %d inside", xid, m.xid)
				}
				if m.inner.(FlowMod).Flow.Table == 2 {
					p.send(xid, &Error{Type: 4, Code: 9})
				}
			}
			return false
		})
	})
	c := dialPeer(t, target, Options{})
	err := c.Bundle(deadline(t, patience), twoFlows...)
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Type != 4 || refusal.Code != 9 {
		t.Fatalf("got %v", err)
	}
	if want := "switch refuses flow add: table=2, priority=0 actions=drop: bad match: bad prerequisite"; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("kind %v", fault.KindOf(err))
	}
	var seen []bundleOp
	for len(operations) > 0 { // Bundle has returned: the switch has had them all
		seen = append(seen, <-operations)
	}
	if !slices.Equal(seen, []bundleOp{bundleOpen, bundleDiscard}) {
		t.Errorf("operations: %v", seen)
	}
}

func TestAFailedCommitNamesTheMessage(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		var second uint32
		p.obey(func(xid uint32, m Message) bool {
			switch m := m.(type) {
			case bundleAdd:
				second = xid
			case bundleControl:
				if m.op == bundleCommit {
					p.send(second, &Error{Type: 2, Code: 9})
					p.send(xid, &Error{Type: TypeExperimenterError, Experimenter: experimenterONF, Code: 2313})
					return true
				}
			}
			return false
		})
	})
	err := dialPeer(t, target, Options{}).Bundle(deadline(t, patience), twoFlows...)
	if err == nil || !strings.Contains(err.Error(), "table=2") || !strings.Contains(err.Error(), "bad output group") {
		t.Errorf("got %v", err)
	}
}

func TestASwitchThatHangsUpInABundleIsNoRefusal(t *testing.T) {
	for _, when := range []bundleOp{bundleOpen, bundleCommit} {
		target := scripted(t, func(p *peer) {
			p.greet()
			p.obey(func(_ uint32, m Message) bool {
				if control, ok := m.(bundleControl); ok && control.op == when {
					_ = p.conn.Close()
				}
				return false
			})
		})
		err := dialPeer(t, target, Options{}).Bundle(deadline(t, patience), twoFlows...)
		if !fault.Is(err, fault.Unavailable) || isRefusal(err) {
			t.Errorf("%v: got %v", when, err)
		}
	}
}

func TestABundleThatIsNotConfirmedIsAnError(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(xid uint32, m Message) bool {
			if control, ok := m.(bundleControl); ok {
				p.send(xid, bundleControl{control.id + 1, control.op + 1})
			}
			return true
		})
	})
	c := dialPeer(t, target, Options{})
	if reply, err := c.call(deadline(t, patience), bundleControl{1, bundleCommit}); err != nil {
		t.Fatal(err)
	} else if err := (bundleControl{1, bundleCommit}).answered(reply); err == nil {
		t.Error("an answer about another bundle is taken")
	}
}

func TestAMessageThatCannotBeEncodedIsNotSent(t *testing.T) {
	target := scripted(t, func(p *peer) {
		p.greet()
		p.obey(func(_ uint32, m Message) bool {
			if _, ok := m.(bundleControl); ok {
				t.Errorf("%s was sent", m)
			}
			return false
		})
	})
	c := dialPeer(t, target, Options{})
	bad := FlowMod{Flow: Flow{Table: 7, Match: Match{TCPDst(80)}}}
	err := c.Bundle(deadline(t, patience), twoFlows[0], bad)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "table=7") || !strings.Contains(err.Error(), "tcp_dst requires a suitable eth_type") {
		t.Errorf("got %v", err)
	}
	mustWork(t, c)
	if len(c.waiting) != 0 {
		t.Errorf("%d requests are waiting", len(c.waiting))
	}
}
