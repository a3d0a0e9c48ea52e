package classes

import (
	"fmt"
	"testing"
)

// A policy for which there is no room allows nothing, and is told of once; when others go, it applies.
func TestPoliciesThatAreTooManyAllowNothing(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "db", Pod{Labels: map[string]string{"app": "db"}})
	rules := make([]Rule, MaxRules/2)
	for i := range rules {
		rules[i] = Rule{Verdict: Accept, AnyPeer: true, Ports: []Port{{Protocol: 6, First: uint16(i + 1), Last: uint16(i + 1)}}}
	}
	policy := func(rules []Rule) Policy {
		return Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: Isolating, In: true, Rules: rules}
	}
	step := func(what string, left int, want ...int) {
		t.Helper()
		c := e.Take()
		e.Failed(c) // for the book
		b.write(e)
		if len(c.Left) != left {
			t.Errorf("%s: %q are told of, want %d", what, c.Left, left)
		}
		for i, n := range want {
			if got := len(b.policies[fmt.Sprint("p", i)]); got != n {
				t.Errorf("%s: p%d has %d rules, want %d", what, i, got, n)
			}
		}
	}
	e.SetPolicy("p0", policy(rules))
	e.SetPolicy("p1", policy(rules))
	step("as many as there can be", 0, MaxRules/2, MaxRules/2)
	e.SetPolicy("p2", policy(rules[:1]))
	step("one more", 1, MaxRules/2, MaxRules/2, 0)
	e.SetPod("shop", "web", Pod{Labels: map[string]string{"app": "web"}})
	e.SetPolicy("p0", policy(rules[1:]))
	step("there is room again", 0, MaxRules/2-1, MaxRules/2, 1)
	e.SetPolicy("p0", policy(rules))
	step("and not", 1, MaxRules/2, MaxRules/2, 0)
	e.RemovePolicy("p0")
	step("one goes", 0, 0, MaxRules/2, 1)
}

// Pods for whose class there is no number are of one that is never written, and take nobody's.
func TestPodsWithoutANumberForTheirClassAreIsolated(t *testing.T) {
	const bits = 4 // selectors, so that there are one class too many for the numbers
	e, b := New(), newBook()
	e.most = 1<<bits - 2
	e.SetNamespace("shop", nil)
	for i := range bits {
		e.SetPolicy(fmt.Sprint("p", i), Policy{Subject: PodSelector{Namespace: "shop", Pods: Selector{{fmt.Sprint(i), Exists, nil}}}, Tier: Isolating, In: true})
	}
	for n := 1; n < 1<<bits; n++ {
		labels := map[string]string{}
		for i := range bits {
			if n>>i&1 == 1 {
				labels[fmt.Sprint(i)] = ""
			}
		}
		e.SetPod("shop", fmt.Sprint(n), Pod{Labels: labels})
	}
	e.RevisitAll()
	b.write(e)
	last := fmt.Sprint("shop/", 1<<bits-1)
	if _, written := b.classes[nobodys]; written || b.pods[last] != nobodys || len(b.classes) != int(e.most) {
		t.Fatalf("%d classes are written; the last pod is of class %d", len(b.classes), b.pods[last])
	}
	e.RemovePod("shop", fmt.Sprint(1<<bits-1))
	e.SetPod("shop", "1", Pod{})
	b.write(e)
	if b.pods["shop/1"] != 0 || b.pods["shop/2"] == nobodys {
		t.Errorf("pods are of classes %d, %d", b.pods["shop/1"], b.pods["shop/2"])
	}
}
