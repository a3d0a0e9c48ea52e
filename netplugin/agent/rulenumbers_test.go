package agent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// While the switch has flows of the old and the new rule with one number, the peers of one would match with the
// ports of the other.
func TestARuleThatChangesInSeveralDimensionsHasAnotherNumber(t *testing.T) {
	const minute = 2 * settleTime
	n, now := newRuleNumbers(), time.Now()
	last := uint32(0)
	for _, step := range []struct {
		what    string
		after   time.Duration
		rule    string
		another bool
	}{
		{"the first", 0, `"nets":["10.0.0.0/8"],"ports":[{"protocol":6,"first":80,"last":80}]`, true},
		{"other networks", 0, `"nets":["10.0.0.0/8","192.0.2.0/24"],"ports":[{"protocol":6,"first":80,"last":80}]`, false},
		{"peers beside them, and fewer networks", 0, `"nets":["10.0.0.0/8"],"peers":[8],"ports":[{"protocol":6,"first":80,"last":80}]`, false},
		{"the same", 0, `"nets":["10.0.0.0/8"],"peers":[8],"ports":[{"protocol":6,"first":80,"last":80}]`, false},
		{"ports, before the switch has the peers", 0, `"nets":["10.0.0.0/8"],"peers":[8],"ports":[{"protocol":6,"first":81,"last":81}]`, true},
		{"peers, when it has the ports", minute, `"nets":["10.0.0.0/8"],"ports":[{"protocol":6,"first":81,"last":81}]`, false},
		{"peers and ports", minute, `"nets":["192.0.2.0/24"],"ports":[{"protocol":6,"first":82,"last":82}]`, true},
		{"another verdict", minute, `"nets":["192.0.2.0/24"],"ports":[{"protocol":6,"first":82,"last":82}],"verdict":"deny"`, false},
		{"another verdict for other peers", minute, `"nets":["10.0.0.0/8"],"ports":[{"protocol":6,"first":82,"last":82}],"verdict":"accept"`, true},
		{"a name", minute, `"nets":["10.0.0.0/8"],"names":["a.example"],"ports":[{"protocol":6,"first":82,"last":82}],"verdict":"accept"`, false},
		{"another name and other ports", minute, `"nets":["10.0.0.0/8"],"names":["b.example"],"ports":[{"protocol":6,"first":83,"last":83}],"verdict":"accept"`, true},
		{"any peer", minute, `"anyPeer":true,"ports":[{"protocol":6,"first":83,"last":83}]`, true},
		{"any port, too", minute, `"anyPeer":true`, true},
	} {
		var wire mastercfg.TierRule
		if err := json.Unmarshal([]byte(`{"tier":1,"verdict":"accept","subjects":[7],`+step.rule+`}`), &wire); err != nil {
			t.Fatal(err)
		}
		rule, err := tierRule("p#0", wire)
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(step.after)
		if last != 0 {
			n.leave(rule.ID, now) // as each record of a policy replaces the previous one
		}
		number := n.of(rule, wire.Names, now)
		if (number != last) != step.another {
			t.Errorf("%s: number %d after %d", step.what, number, last)
		}
		last = number
	}
	if len(n.taken) != 2 { // the present one, and the previous one, which the switch may still have
		t.Errorf("numbers of one rule: %v", n.taken)
	}
	n.leave("p#0", now)
	n.forget(now.Add(settleTime / 2))
	if len(n.given) != 1 || len(n.taken) != 2 {
		t.Errorf("while the switch may have them: %v, %v", n.given, n.taken)
	}
	n.forget(now.Add(minute))
	if len(n.given)+len(n.taken)+len(n.retired) != 0 {
		t.Errorf("numbers of no rule: %v, %v, %v", n.given, n.taken, n.retired)
	}
}

// Rules that are removed and added again at once are the ones that the switch has.
func TestARuleThatComesBackIsTheSame(t *testing.T) {
	n, now := newRuleNumbers(), time.Now()
	rule, err := tierRule("p#0", mastercfg.TierRule{Tier: 1, Verdict: "accept", Subjects: []uint16{7}, Nets: []string{"10.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	first := n.of(rule, nil, now)
	n.leave(rule.ID, now)
	again := n.of(rule, nil, now.Add(time.Second))
	n.leave(rule.ID, now.Add(2*time.Second))
	late := n.of(rule, nil, now.Add(2*settleTime))
	if first != again || first != late || len(n.taken) != 1 {
		t.Errorf("numbers %d, %d, %d: %v", first, again, late, n.taken)
	}
}
