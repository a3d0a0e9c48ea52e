package classes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

func TestRulesSayTheSameOfSomeClasses(t *testing.T) {
	some := map[uint16]struct{}{1: {}, 2: {}}
	rule := func(subjects, peers, serving []uint16, nets ...string) mastercfg.TierRule {
		return mastercfg.TierRule{Verdict: string(Accept), Subjects: subjects, Peers: peers, Serving: serving, Nets: nets}
	}
	excepting := rule([]uint16{1}, nil, nil, "10.0.0.0/8")
	excepting.Excepts = []mastercfg.TierExcept{{Net: "10.0.0.0/7", Except: []string{"11.0.0.0/8"}}}
	type rules = []mastercfg.TierRule
	type list = []uint16
	for what, c := range map[string]struct {
		before, now rules
		same        bool
	}{
		"nothing":                                         {rules{}, rules{}, true},
		"another class comes":                             {rules{rule(list{1}, list{2}, nil)}, rules{rule(list{1, 7}, list{2, 8}, nil)}, true},
		"another one was the only subject":                {rules{rule(list{7}, list{2}, nil)}, rules{}, true},
		"another one is the only peer":                    {rules{}, rules{rule(list{1}, list{7}, nil)}, true},
		"another one beside networks":                     {rules{rule(list{1}, list{7}, nil, "10.0.0.0/8")}, rules{rule(list{1}, nil, nil, "10.0.0.0/8")}, true},
		"another one is the only one there":               {rules{}, rules{rule(list{1}, nil, list{7}, "10.0.0.0/8")}, true},
		"exceptions that an earlier version did not note": {rules{rule(list{1}, nil, nil, "10.0.0.0/8")}, rules{excepting}, true},
		"a subject more":                                  {rules{rule(list{1}, list{2}, nil)}, rules{rule(list{1, 2}, list{2}, nil)}, false},
		"the last subject less":                           {rules{rule(list{1}, list{2}, nil)}, rules{}, false},
		"a peer less":                                     {rules{rule(list{1}, list{1, 2}, nil)}, rules{rule(list{1}, list{1}, nil)}, false},
		"another one that serves":                         {rules{rule(list{1}, nil, list{1}, "10.0.0.0/8")}, rules{rule(list{1}, nil, list{2}, "10.0.0.0/8")}, false},
	} {
		if got := SameFor(some, c.before, c.now); got != c.same {
			t.Errorf("%s: %v, want %v", what, got, c.same)
		}
		if !SameFor(nil, c.before, c.now) {
			t.Errorf("%s: not the same of no class", what)
		}
	}
}

// anew reports whether an engine's first changes have connections evaluated again: pods have another number, or
// numbers stand for other pods.
func (b *book) anew(c Changes) bool {
	lasting, anew := map[uint16]struct{}{}, c.Moved
	for number, now := range c.Classes {
		if before, recorded := b.classes[number]; recorded && now != nil {
			lasting[number], anew = struct{}{}, anew || before != *now
		}
	}
	for id, policy := range c.Policies {
		anew = anew || !SameFor(lasting, b.policies[id], policy.Rules)
	}
	return anew
}

// Whatever labels change between two engines, a connection that was admitted and is not any more is evaluated
// again.
func TestALabelThatChangesBetweenEnginesHasConnectionsJudgedAnew(t *testing.T) {
	denied := 0
	for seed := range uint64(200) {
		when := fmt.Sprint("seed ", seed)
		u := &universe{rand.New(rand.NewPCG(seed, 2)), map[string]map[string]string{"x": {}, "y": {}}, map[string]Pod{}, map[string]Policy{}}
		e, b := New(), newBook()
		e.SetNamespace("x", nil)
		e.SetNamespace("y", nil)
		for range 30 {
			u.change(e)
		}
		b.write(e)
		before, changes := u.admitted(b), u.rand.IntN(3)
		for _, key := range slices.Sorted(maps.Keys(u.pods)) { // the same ones each time
			if changes > 0 {
				p := u.pods[key]
				p.Labels = u.labels()
				u.pods[key] = p
				changes--
			}
		}
		maps.DeleteFunc(b.pods, func(key string, _ uint16) bool { _, there := u.pods[key]; return !there })
		c := u.begin(b).Take()
		anew := b.anew(c)
		b.enter(c)
		u.compare(t, b, when)
		after, differs := u.admitted(b), false
		for connection, was := range before {
			differs = differs || was && !after[connection]
		}
		if differs && !anew {
			t.Errorf("%s: connections are denied, and not judged anew", when)
		}
		if differs {
			denied++
		}
	}
	if denied < 20 {
		t.Errorf("connections are denied in %d universes: that is too few to say anything", denied)
	}
}

// admitted returns the connections that the written rules admit.
func (u *universe) admitted(b *book) map[string]bool {
	all := map[string]bool{}
	for from := range u.pods {
		for to := range u.pods {
			for _, out := range []bool{true, false} {
				for _, at := range []NamedPort{{"", 6, 80}, {"", 6, 81}, {"", 17, 53}, {"", 17, 91}} {
					all[fmt.Sprint(from, to, out, at)] = b.admits(from, to, out, at.Protocol, at.Number)
				}
			}
		}
	}
	return all
}
