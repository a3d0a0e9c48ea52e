package classes

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// isAboutAnyPod reports whether a rule is written in the form for any pod.
func (b *book) isAboutAnyPod() bool {
	for _, rules := range b.policies {
		if slices.ContainsFunc(rules, func(r mastercfg.TierRule) bool { return r.AnyPod }) {
			return true
		}
	}
	return false
}

var everyPod = []PodSelector{{}}

// A thousand policies that admit all pods do not list them: when a class is added or removed in which none of them
// has subjects, the class and its pods are written, and no policy.
func TestANewClassOfPodsIsNoNewsToPoliciesAboutAnyPod(t *testing.T) {
	e := New()
	e.UseAnyPod(true)
	e.SetNamespace("shop", nil)
	for i := range 100 {
		app := fmt.Sprint("app", i)
		e.SetPod("shop", app, Pod{Labels: map[string]string{"app": app}})
		e.SetPolicy(app, Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", app)}, Tier: Isolating, In: true,
			Rules: []Rule{{Verdict: Accept, Peers: everyPod}, {Verdict: Accept, Peers: append([]PodSelector{{Namespace: "shop", Pods: labelled("app", "new")}}, everyPod...)}}})
	}
	all := e.Take()
	e.Written(all)
	for id, policy := range all.Policies {
		for _, r := range policy.Rules {
			if !r.AnyPod || r.AnyPeer || r.Peers != nil || len(r.Subjects) != 1 {
				t.Errorf("%s: %+v", id, r)
			}
		}
	}
	for _, step := range []struct {
		what   string
		change func()
	}{
		{"a class comes", func() { e.SetPod("shop", "new", Pod{Labels: map[string]string{"app": "new"}}) }},
		{"its pod is of another one", func() { e.SetPod("shop", "new", Pod{Labels: map[string]string{"app": "app7"}}) }},
		{"the pod goes", func() { e.RemovePod("shop", "new") }},
	} {
		step.change()
		c := e.Take()
		if e.Written(c); len(c.Policies) > 0 {
			t.Errorf("%s: %d policies are written", step.what, len(c.Policies))
		}
	}
	for _, use := range []bool{false, true} {
		e.UseAnyPod(use)
		c := e.Take()
		if e.Written(c); len(c.Policies) != 100 || (c.Policies["app1"].Rules[0].Peers == nil) != use {
			t.Errorf("the other form, %v: %d policies, %+v", use, len(c.Policies), c.Policies["app1"])
		}
	}
}

// To an agent that does not know the form, a rule that denies applies to all peers, and one that accepts only to
// those that it names otherwise. One that passes lists classes.
func TestARuleAboutAnyPodAllowsNoMoreToWhoDoesNotKnowIt(t *testing.T) {
	e := New()
	e.UseAnyPod(true)
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "web", Pod{Ports: []NamedPort{{"web", 6, 80}}})
	nets := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	e.SetPolicy("p", Policy{Tier: First, Out: true, Rules: []Rule{
		{Out: true, Verdict: Deny, Peers: everyPod}, {Out: true, Verdict: Accept, Peers: everyPod, Nets: nets}, {Out: true, Verdict: Pass, Peers: everyPod},
		{Out: true, Verdict: Deny, Peers: everyPod, Ports: []Port{{Name: "web"}}}, {Out: true, Verdict: Deny, AnyPeer: true}}})
	type peers struct {
		anyPeer, anyPod, anyone bool
		listed, nets            int
	}
	want := []peers{{true, true, false, 0, 0}, {false, true, false, 0, 1}, {false, false, false, 1, 0}, {false, false, false, 1, 0}, {true, false, true, 0, 0}}
	var got []peers
	for _, r := range e.Take().Policies["p"].Rules {
		got = append(got, peers{r.AnyPeer, r.AnyPod, r.Anyone(), len(r.Peers), len(r.Nets)})
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
